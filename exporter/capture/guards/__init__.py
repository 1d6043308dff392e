"""What a capture asks about sizes, who answers, and what the captured graph relies on since."""
