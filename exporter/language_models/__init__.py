"""Language models of transformers: folders as SOURCE, and the calls of prompt and decoding steps."""
