"""Repeated blocks of a model, such as the layers of a transformer: captured once, and copied in the graph.

    likeness.py   what two modules, or two calls of them, have in common
    numbers.py    whole numbers in which modules differ, and what a call asks them
    attributes.py which of the attributes in which modules differ a call reads
    cached.py     caches of keys and values, of which each module uses the layer of its own number
    recorded.py   the nodes that a call of a module made: recorded, copied for another module, compared with others
    blocks.py     which blocks a model repeats, and the calls of them while it is captured

A call of a module is copied from the call of another one where Python would run in the same way: the modules have the
same classes, structure and attributes, as far as the recorded call has read them; the arguments are alike (types,
sizes, memory, identity); and all state that the code can reach is as it was. Nothing is copied of a call that changes
such state. The last block of each kind is captured in full and compared with the copy that it would have been, node by
node; where they differ, or where that block was not called, the model is captured again without copies.
"""
