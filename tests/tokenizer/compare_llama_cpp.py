"""Compares Spillway's token ids with llama.cpp's (PyPI xllamacpp, gguf, numpy) on generated texts. On demand:

    python tests/tokenizer/compare_llama_cpp.py build/release/bin/encode_lines VOCABULARY.gguf
        [--count 20000] [--seed 1] [--pre NAME] [--special]

The vocabulary is given to llama.cpp inside a one-layer model of zeros. --pre puts another pre-tokenizer's name
over it, --special parses special tokens in the text. Prints the differences; exit code 1 if there are any.
"""

import argparse
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata
from urllib.parse import urlparse

import gguf
import numpy
import xllamacpp

WIDTH = 32


def write_model(vocabulary, path, pre):
    reader = gguf.GGUFReader(vocabulary)
    writer = gguf.GGUFWriter(path, "llama")
    name = reader.get_field("general.name")
    writer.add_name(name.contents() if name else "vocabulary")
    for key, field in reader.fields.items():
        if not key.startswith("tokenizer.ggml."):
            continue
        value = pre if pre and key == "tokenizer.ggml.pre" else field.contents()
        writer.add_key_value(key, value, field.types[0], field.types[1] if len(field.types) > 1 else None)
    tokens = reader.get_field("tokenizer.ggml.tokens").contents()
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tensor("token_embd.weight", numpy.zeros((len(tokens), WIDTH), dtype=numpy.float16))
    writer.add_tensor("output_norm.weight", numpy.zeros(WIDTH, dtype=numpy.float32))
    for part in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.0.{part}.weight", numpy.zeros(WIDTH, dtype=numpy.float32))
    for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{part}.weight", numpy.zeros((WIDTH, WIDTH), dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    types = reader.get_field("tokenizer.ggml.token_type").contents()
    return tokens, [token for token, kind in zip(tokens, types) if kind in (2, 3, 4)]


class Texts:
    """Words, tokens, runs of one class, any character of Unicode 14, and special tokens."""

    RUNS = [" ", "\n", "\t", "\r\n", "a", "Z", "7", "!", "'", "\u2581", "語", "é", "🦙", "\u0301", "\u00a0", "٣", "ǅ", "ß"]
    PARTS = ["'s", "'LL", "'ve ", "don't", " Hello", "World", "123", " 4567", "ab", "x=", "//", "...", "ﬁ", "½", "İ", "\x00", "\x85"]

    def __init__(self, tokens, special, seed):
        self.random = random.Random(seed)
        self.tokens, self.special = tokens, special

    def character(self):
        top = self.random.choice([0x80, 0x250, 0x3000, 0x20000, 0x110000])
        while True:
            c = chr(self.random.randrange(1, top))
            if unicodedata.category(c) not in ("Cs", "Cn"):
                return c

    def part(self):
        kind = self.random.randrange(8)
        if kind == 0:
            return self.random.choice(self.RUNS) * self.random.randrange(1, 40)
        if kind == 1:
            return "".join(self.character() for _ in range(self.random.randrange(1, 12)))
        if kind == 2:
            return self.random.choice(self.PARTS)
        if kind == 3 and self.special:
            return self.random.choice(self.special)
        if kind == 4:
            return "".join(self.random.choice(self.RUNS) for _ in range(self.random.randrange(1, 8)))
        token = self.random.choice(self.tokens)
        return token.replace("\u2581", " ").replace("\u0120", " ").replace("\u010a", "\n")

    def text(self):
        return "".join(self.part() for _ in range(self.random.randrange(1, 10)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("encode_lines")
    parser.add_argument("vocabulary")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pre", default="")
    parser.add_argument("--special", action="store_true")
    parser.add_argument("--show", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model.gguf")
        tokens, special = write_model(options.vocabulary, model, options.pre)
        source = Texts(tokens, special, options.seed)
        texts = [source.text() for _ in range(options.count)]
        command = [options.encode_lines, model] + (["--special"] if options.special else [])
        lines = "".join(json.dumps(text) + "\n" for text in texts)
        ours = subprocess.run(command, input=lines, capture_output=True, text=True, check=True).stdout.split("\n")
        params = xllamacpp.CommonParams()
        params.model.path, params.n_ctx, params.warmup, params.port = model, 512, False, 0
        params.verbosity = -1
        server = xllamacpp.Server(params)
        address = urlparse(server.listening_address)
        client = http.client.HTTPConnection(address.hostname, address.port)
        differences = broken = 0
        for text, line in zip(texts, ours):
            body = json.dumps({"content": text, "add_special": False, "parse_special": options.special})
            client.request("POST", "/tokenize", body, {"Content-Type": "application/json"})
            expected = json.loads(client.getresponse().read())["tokens"]
            answer = json.loads(line)
            broken += answer["text"].replace("\u2581", " ") != text.replace("\u2581", " ")
            if answer["ids"] == expected:
                continue
            differences += 1
            if differences <= options.show:
                print(ascii(text), "\n  spillway ", answer["ids"], "\n  llama.cpp", expected)
        print(f"{options.count} texts, {differences} differences, {broken} do not come back from their ids")
        sys.stdout.flush()
        os._exit(differences > 0)


if __name__ == "__main__":
    main()
