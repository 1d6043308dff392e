"""Arguments and results of a call: values by their paths, containers of all kinds, and how they nest."""
