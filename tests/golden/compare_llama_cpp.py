"""Compares Spillway's logits with llama.cpp's (PyPI xllamacpp, gguf, numpy) on random tiny models of architectures
and forms of file that the golden cases lack. On demand:

    python tests/golden/compare_llama_cpp.py build/release/bin/spillway [KIND ...] [--keep FOLDER] [--list]

Each model has F32 matrices, so llama.cpp computes in float32 with an F32 cache: the reference backend must agree
within 1e-3 of every log-probability (gemma: 1e-2, llama.cpp's GELU is a table), the host backend (f16 cache) within
0.06. Prints one line for each; exit code 1 if any differs. KINDS is the table of models: a builder of keys and tensors for each.
"""

import argparse
import http.client
import json
import math
import os
import subprocess
import sys
import tempfile
from urllib.parse import urlparse

import gguf
import numpy

PREFIXES = (1, 2, 9, 33, 70)
N_VOCAB = 260


class File:
    """Keys and random tensors of one model. Matrices are given as (n_out, n_in), slabs before them."""

    def __init__(self, path, arch, seed):
        self.writer = gguf.GGUFWriter(path, arch)
        self.arch = arch
        self.random = numpy.random.default_rng(seed)
        self.writer.add_name("tiny")
        self.vocabulary()

    def vocabulary(self):
        tokens = ["<|end|>", "<|a|>", "<|b|>"] + [self.letter(i) for i in range(256)] + ["ab"]
        self.writer.add_tokenizer_model("gpt2")
        self.writer.add_tokenizer_pre("gpt-2")
        self.writer.add_token_list(tokens)
        self.writer.add_token_types([3, 3, 3] + [1] * 257)
        self.writer.add_token_merges(["a b"])
        for kind in ("bos", "eos", "padding"):
            self.writer.add_uint32(f"tokenizer.ggml.{kind}_token_id", 0)
        self.writer.add_add_bos_token(False)

    @staticmethod
    def letter(byte):
        printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
        if byte in printable:
            return chr(byte)
        return chr(256 + [b for b in range(256) if b not in printable].index(byte))

    def keys(self, **keys):
        for name, value in keys.items():
            name = f"{self.arch}.{name.replace('__', '.')}"
            if isinstance(value, bool):
                self.writer.add_bool(name, value)
            elif isinstance(value, int):
                self.writer.add_uint32(name, value)
            elif isinstance(value, float):
                self.writer.add_float32(name, value)
            elif isinstance(value, str):
                self.writer.add_string(name, value)
            else:
                self.writer.add_array(name, value)

    def add(self, name, values):
        self.writer.add_tensor(name, values.astype(numpy.float32))

    def matrix(self, name, *shape, gain=1.0):
        values = self.random.normal(0, gain / math.sqrt(shape[-1]), shape)
        self.add(name, values)
        return values

    def vector(self, name, n, mean=0.0, spread=0.2):
        self.add(name, self.random.normal(mean, spread, n))

    def close(self):
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def common(f, n_layer, d, n_head, n_head_kv, head_dim, **keys):
    f.keys(block_count=n_layer, context_length=16384, embedding_length=d, attention__head_count=n_head,
           attention__head_count_kv=n_head_kv, attention__layer_norm_rms_epsilon=1e-5, rope__freq_base=10000.0,
           vocab_size=N_VOCAB)
    if head_dim:
        f.keys(attention__key_length=head_dim, attention__value_length=head_dim)
    f.keys(**keys)
    f.matrix("token_embd.weight", N_VOCAB, d, gain=math.sqrt(d))
    f.vector("output_norm.weight", d, 1.0)


def attention(f, b, d, n_head, n_head_kv, head_dim, bias=False, output_bias=False, qk_norm=0):
    f.vector(f"{b}attn_norm.weight", d, 1.0)
    for name, rows in (("q", n_head), ("k", n_head_kv), ("v", n_head_kv)):
        f.matrix(f"{b}attn_{name}.weight", rows * head_dim, d, gain=1.5)
        if bias:
            f.vector(f"{b}attn_{name}.bias", rows * head_dim)
    f.matrix(f"{b}attn_output.weight", d, n_head * head_dim, gain=2)
    if output_bias:
        f.vector(f"{b}attn_output.bias", d)
    if qk_norm == 1:
        f.vector(f"{b}attn_q_norm.weight", head_dim, 1.0)
        f.vector(f"{b}attn_k_norm.weight", head_dim, 1.0)
    if qk_norm == 2:
        f.vector(f"{b}attn_q_norm.weight", n_head * head_dim, 1.0)
        f.vector(f"{b}attn_k_norm.weight", n_head_kv * head_dim, 1.0)


def dense(f, b, d, n_ff, norm="ffn_norm"):
    f.vector(f"{b}{norm}.weight", d, 1.0)
    f.matrix(f"{b}ffn_gate.weight", n_ff, d)
    f.matrix(f"{b}ffn_up.weight", n_ff, d)
    f.matrix(f"{b}ffn_down.weight", d, n_ff, gain=2)


def experts(f, b, d, n_ff, n, shared=0, norm="ffn_norm", bias=False, gated=False, form="exps"):
    f.vector(f"{b}{norm}.weight", d, 1.0)
    f.matrix(f"{b}ffn_gate_inp.weight", n, d, gain=3)
    if bias:
        f.vector(f"{b}exp_probs_b.bias", n, 0.0, 0.1)
    shapes = {"gate": (n, n_ff, d), "up": (n, n_ff, d), "down": (n, d, n_ff)}
    values = {k: f.random.normal(0, (3 if k == "down" else 1) / math.sqrt(s[-1]), s) for k, s in shapes.items()}
    if form == "fused":
        f.add(f"{b}ffn_gate_up_exps.weight", numpy.concatenate([values.pop("gate"), values.pop("up")], axis=1))
    for name, slabs in values.items():
        if form == "single":
            for e in range(n):
                f.add(f"{b}ffn_{name}.{e}.weight", slabs[e])
        else:
            f.add(f"{b}ffn_{name}_exps.weight", slabs)
    if shared:
        if gated:
            f.vector(f"{b}ffn_gate_inp_shexp.weight", d, 0.0, 1 / math.sqrt(d))
        f.matrix(f"{b}ffn_gate_shexp.weight", shared, d)
        f.matrix(f"{b}ffn_up_shexp.weight", shared, d)
        f.matrix(f"{b}ffn_down_shexp.weight", d, shared, gain=2)


def deepseek2(f, v3=False, old=False, temperature=False, draft=0):
    d, n_head, n_key, n_rot, n_value, n_latent, rank = 64, 4, 24, 16, 20, 40, 32
    n_layer = 3 if v3 else 27  # how llama.cpp knows the kind without a query latent
    sizes = dict(attention__key_length=n_key + n_rot, attention__value_length=n_value)
    if not old:
        sizes = dict(attention__key_length=n_latent + n_rot, attention__value_length=n_latent,
                     attention__key_length_mla=n_key + n_rot, attention__value_length_mla=n_value)
    common(f, n_layer + draft, d, n_head, n_head if old else 1, 0, feed_forward_length=96, leading_dense_block_count=n_layer - 2,
           attention__kv_lora_rank=n_latent, rope__dimension_count=n_rot, expert_count=8, expert_used_count=3,
           expert_feed_forward_length=32, expert_shared_count=2, expert_weights_scale=1.5, **sizes)
    if draft:
        f.keys(nextn_predict_layers=draft)
    if v3:
        f.keys(attention__q_lora_rank=rank, expert_gating_func=2, expert_weights_norm=True, expert_group_count=4,
               expert_group_used_count=2)
    if v3 and not temperature:
        f.keys(rope__scaling__type="none")
    else:
        f.keys(rope__scaling__type="yarn", rope__scaling__factor=8.0, rope__scaling__original_context_length=64,
               rope__scaling__yarn_log_multiplier=0.0707)
    if temperature:
        f.keys(attention__temperature_scale=0.1, attention__temperature_length=16)
    f.matrix("output.weight", N_VOCAB, d, gain=2)
    for i in range(n_layer + draft):
        b = f"blk.{i}."
        f.vector(f"{b}attn_norm.weight", d, 1.0)
        if v3:
            f.matrix(f"{b}attn_q_a.weight", rank, d)
            f.vector(f"{b}attn_q_a_norm.weight", rank, 1.0)
            f.matrix(f"{b}attn_q_b.weight", n_head * (n_key + n_rot), rank, gain=1.5)
        else:
            f.matrix(f"{b}attn_q.weight", n_head * (n_key + n_rot), d, gain=1.5)
        f.matrix(f"{b}attn_kv_a_mqa.weight", n_latent + n_rot, d)
        f.vector(f"{b}attn_kv_a_norm.weight", n_latent, 1.0)
        both = f.random.normal(0, 1.5 / math.sqrt(n_latent), (n_head, n_key + n_value, n_latent))
        if old:
            f.add(f"{b}attn_kv_b.weight", both.reshape(-1, n_latent))
        else:
            f.add(f"{b}attn_k_b.weight", numpy.ascontiguousarray(both[:, :n_key].transpose(0, 2, 1)))
            f.add(f"{b}attn_v_b.weight", numpy.ascontiguousarray(both[:, n_key:]))
        f.matrix(f"{b}attn_output.weight", d, n_head * n_value, gain=2)
        if i < n_layer - 2:
            dense(f, b, d, 96)
        else:
            experts(f, b, d, 32, 8, shared=64, bias=v3)
        if i >= n_layer:
            f.matrix(f"{b}nextn.eh_proj.weight", d, 2 * d)
            for name in ("enorm", "hnorm", "shared_head_norm"):
                f.vector(f"{b}nextn.{name}.weight", d, 1.0)


def hybrid(f, moe=False, draft=0, n_key=2, n_value=4, state=64):
    """qwen35, qwen35moe: Gated DeltaNet in three blocks of four, gated full attention in the fourth."""
    d, n_head, n_head_kv, head_dim, n_layer = 128, 4, 2, 64, 4
    common(f, n_layer + draft, d, n_head, n_head_kv, head_dim, rope__dimension_count=16, full_attention_interval=4,
           ssm__conv_kernel=4, ssm__state_size=state, ssm__group_count=n_key, ssm__time_step_rank=n_value,
           ssm__inner_size=n_value * state)
    f.writer.add_array(f"{f.arch}.rope.dimension_sections", [3, 3, 2, 0])
    if moe:
        f.keys(expert_count=8, expert_used_count=3, expert_feed_forward_length=32, expert_shared_feed_forward_length=48)
    else:
        f.keys(feed_forward_length=96)
    if draft:
        f.keys(nextn_predict_layers=draft)
    channels = 2 * n_key * state + n_value * state
    for i in range(n_layer + draft):
        b = f"blk.{i}."
        f.vector(f"{b}attn_norm.weight", d, 1.0)
        if i >= n_layer or (i + 1) % 4 == 0:
            f.matrix(f"{b}attn_q.weight", 2 * n_head * head_dim, d, gain=1.5)
            f.matrix(f"{b}attn_k.weight", n_head_kv * head_dim, d, gain=1.5)
            f.matrix(f"{b}attn_v.weight", n_head_kv * head_dim, d, gain=1.5)
            f.matrix(f"{b}attn_output.weight", d, n_head * head_dim, gain=3)
            f.vector(f"{b}attn_q_norm.weight", head_dim, 1.0)
            f.vector(f"{b}attn_k_norm.weight", head_dim, 1.0)
        else:
            f.matrix(f"{b}attn_qkv.weight", channels, d, gain=1.5)
            f.matrix(f"{b}attn_gate.weight", n_value * state, d)
            f.matrix(f"{b}ssm_alpha.weight", n_value, d)
            f.matrix(f"{b}ssm_beta.weight", n_value, d)
            f.matrix(f"{b}ssm_conv1d.weight", channels, 4, gain=2)
            f.add(f"{b}ssm_a", -numpy.exp(f.random.normal(-1, 0.5, n_value)))
            f.vector(f"{b}ssm_dt.bias", n_value, 0.0, 0.5)
            f.vector(f"{b}ssm_norm.weight", state, 1.0)
            f.matrix(f"{b}ssm_out.weight", d, n_value * state, gain=2)
        if moe:
            experts(f, b, d, 32, 8, shared=48, norm="post_attention_norm", gated=True)
        else:
            dense(f, b, d, 96, norm="post_attention_norm")
        if i >= n_layer:
            f.matrix(f"{b}nextn.eh_proj.weight", d, 2 * d)
            for name in ("enorm", "hnorm", "shared_head_norm"):
                f.vector(f"{b}nextn.{name}.weight", d, 1.0)


def llama4(f, n_expert=16, step=1, n_layer=4):
    d, n_head, n_head_kv, head_dim = 64, 4, 2, 32
    common(f, n_layer, d, n_head, n_head_kv, head_dim, feed_forward_length=96, expert_count=n_expert, expert_used_count=1,
           expert_feed_forward_length=32, interleave_moe_layer_step=step, rope__dimension_count=head_dim)
    f.matrix("output.weight", N_VOCAB, d, gain=2)
    for i in range(n_layer):
        b = f"blk.{i}."
        attention(f, b, d, n_head, n_head_kv, head_dim)
        if (i + 1) % step == 0:
            experts(f, b, d, 32, n_expert, shared=32)
        else:
            dense(f, b, d, 96)


def plain(f, head_dim=16, n_head=4, n_head_kv=2, d=64, n_layer=4, tied=False, moe=None, keys=None, extra=None, **parts):
    """Layers of ordinary attention and one feed-forward network; `extra(b, i)` adds what else a layer has."""
    common(f, n_layer, d, n_head, n_head_kv, head_dim, feed_forward_length=96, **(keys or {}))
    if not tied:
        f.matrix("output.weight", N_VOCAB, d, gain=2)
    norm = parts.pop("norm", "ffn_norm")
    for i in range(n_layer):
        b = f"blk.{i}."
        attention(f, b, d, n_head, n_head_kv, head_dim, **parts)
        if moe:
            experts(f, b, d, norm=norm, **moe)
        else:
            dense(f, b, d, 96, norm=norm)
        if extra:
            extra(b, i)


def moe_keys(n=8, used=2, n_ff=32, **more):
    return dict(expert_count=n, expert_used_count=used, expert_feed_forward_length=n_ff, **more)


def gemma2(f):
    def post(b, _):
        f.vector(f"{b}post_attention_norm.weight", 64, 1.0)
        f.vector(f"{b}post_ffw_norm.weight", 64, 1.0)

    plain(f, tied=True, extra=post, keys=dict(attention__sliding_window=16, attn_logit_softcapping=20.0,
                                              final_logit_softcapping=15.0))


def phi3(f):
    d, n_head, head_dim, n_ff = 64, 4, 16, 96
    common(f, 3, d, n_head, n_head, 0, feed_forward_length=n_ff, rope__dimension_count=head_dim,
           rope__scaling__original_context_length=64, rope__scaling__attn_factor=1.19)
    f.matrix("output.weight", N_VOCAB, d, gain=2)
    f.add("rope_factors_short.weight", f.random.uniform(1, 2, head_dim // 2))
    f.add("rope_factors_long.weight", f.random.uniform(2, 8, head_dim // 2))
    for i in range(3):
        b = f"blk.{i}."
        f.vector(f"{b}attn_norm.weight", d, 1.0)
        f.matrix(f"{b}attn_qkv.weight", 3 * d, d, gain=1.5)
        f.matrix(f"{b}attn_output.weight", d, d, gain=2)
        f.vector(f"{b}ffn_norm.weight", d, 1.0)
        f.matrix(f"{b}ffn_up.weight", 2 * n_ff, d)
        f.matrix(f"{b}ffn_down.weight", d, n_ff, gain=2)


def llama_freqs(f):
    plain(f)
    f.add("rope_freqs.weight", f.random.uniform(1, 8, 8))


def yarn(f, **more):
    return dict(rope__scaling__type="yarn", rope__scaling__factor=4.0, rope__scaling__original_context_length=32,
                rope__dimension_count=16, **more)


GRANITE = dict(embedding_scale=3.0, residual_scale=0.4, attention__scale=0.2, logit_scale=2.0)

def mixtral(f, form="exps"):
    plain(f, moe=dict(n=8, n_ff=96, form=form), keys=moe_keys(n_ff=96))


# Architecture, builder, and builder of the same weights in a form that llama.cpp reads, where it needs another.
KINDS = {
    "qwen35": ("qwen35", hybrid),
    "qwen35-mtp": ("qwen35", lambda f: hybrid(f, draft=1)),
    "qwen35moe": ("qwen35moe", lambda f: hybrid(f, moe=True, n_value=6, state=128)),
    "deepseek2-lite": ("deepseek2", deepseek2),
    "deepseek2-lite-old": ("deepseek2", lambda f: deepseek2(f, old=True)),
    "deepseek2-v3": ("deepseek2", lambda f: deepseek2(f, v3=True)),
    "deepseek2-v3-old": ("deepseek2", lambda f: deepseek2(f, v3=True, old=True)),
    "deepseek2-temperature": ("deepseek2", lambda f: deepseek2(f, v3=True, temperature=True)),
    "deepseek2-draft": ("deepseek2", lambda f: deepseek2(f, v3=True, draft=1), lambda f: deepseek2(f, v3=True)),
    "llama4-scout": ("llama4", llama4),
    "llama4-maverick": ("llama4", lambda f: llama4(f, n_expert=128, step=2)),
    "llama4-long": ("llama4", lambda f: llama4(f, n_layer=4)),
    "llama-bias": ("llama", lambda f: plain(f, head_dim=128, bias=True, output_bias=True, keys=dict(
        rope__dimension_count=128, rope__scaling__type="linear", rope__scaling__factor=4.0))),
    "llama-freqs": ("llama", llama_freqs),
    "llama-yarn": ("llama", lambda f: plain(f, keys=yarn(f))),
    "mixtral": ("llama", mixtral),
    "mixtral-single": ("llama", lambda f: mixtral(f, form="single"), mixtral),
    "mixtral-fused": ("llama", lambda f: mixtral(f, form="fused"), mixtral),
    "mistral3": ("mistral3", lambda f: plain(f, keys=yarn(
        f, rope__scaling__yarn_log_multiplier=1.0, rope__scaling__yarn_beta_fast=32.0,
        rope__scaling__yarn_beta_slow=1.0, attention__temperature_scale=0.1))),
    "smollm3": ("smollm3", lambda f: plain(f, tied=True, keys=dict(rope__dimension_count=16))),
    "granite": ("granite", lambda f: plain(f, tied=True, keys=dict(rope__dimension_count=16, **GRANITE))),
    "granitemoe": ("granitemoe", lambda f: plain(f, tied=True, moe=dict(n=8, n_ff=96, shared=48), keys=moe_keys(
        n_ff=96, rope__dimension_count=16, expert_shared_feed_forward_length=48, **GRANITE))),
    "olmoe": ("olmoe", lambda f: plain(f, n_head_kv=4, qk_norm=2, moe=dict(n=8, n_ff=96), keys=moe_keys(n_ff=96))),
    "qwen2": ("qwen2", lambda f: plain(f, bias=True)),
    "qwen2moe": ("qwen2moe", lambda f: plain(f, bias=True, moe=dict(n=8, n_ff=32, shared=48, gated=True),
                                             keys=moe_keys(expert_shared_feed_forward_length=48))),
    "gemma2": ("gemma2", gemma2),
    "phi3-longrope": ("phi3", phi3),
}
LENGTHS = {"llama4-long": (8191, 8192, 8193, 8230)}


def llama_cpp(model, prompts):
    """Log-probabilities after each prompt, (prompts, N_VOCAB), from a process of its own."""
    script = [sys.executable, os.path.abspath(__file__), "--serve", model]
    answer = subprocess.run(script, input=json.dumps(prompts), capture_output=True, text=True)
    if answer.returncode != 0:
        raise RuntimeError("llama.cpp: " + answer.stderr.strip().splitlines()[-1] + " (VERBOSITY=5 --serve MODEL says why)")
    return numpy.array(json.loads(answer.stdout.splitlines()[-1]))


def serve(model):
    import xllamacpp

    prompts = json.load(sys.stdin)
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx = max(128, 64 * (max(map(len, prompts)) // 64 + 2))
    params.n_parallel, params.warmup, params.port, params.verbosity = 1, False, 0, int(os.environ.get("VERBOSITY", -1))
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    server = xllamacpp.Server(params)
    address = urlparse(server.listening_address)
    result = []
    for prompt in prompts:
        client = http.client.HTTPConnection(address.hostname, address.port)
        # A token that is text by itself, or the reply holds it back; the probabilities are those before the bias.
        body = {"prompt": prompt, "n_predict": 1, "n_probs": N_VOCAB, "cache_prompt": False, "logit_bias": [[100, 1000]]}
        client.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
        reply = json.loads(client.getresponse().read())
        row = [float("nan")] * N_VOCAB
        for entry in reply["completion_probabilities"][0]["top_logprobs"]:
            row[entry["id"]] = entry["logprob"]
        result.append(row)
    print(json.dumps(result))
    sys.stdout.flush()
    os._exit(0)


def spillway(binary, model, backend, prompt, lengths):
    with tempfile.NamedTemporaryFile() as out:
        command = [binary, "logits", "-m", model, "--backend", backend, "--tokens", ",".join(map(str, prompt)), "--out", out.name]
        answer = subprocess.run(command, capture_output=True, text=True)
        if answer.returncode != 0:
            raise RuntimeError(answer.stderr.strip())
        logits = numpy.fromfile(out.name, dtype=numpy.float32).reshape(-1, N_VOCAB).astype(numpy.float64)
    rows = logits[numpy.array(lengths) - 1]
    rows -= rows.max(axis=1, keepdims=True)
    return rows - numpy.log(numpy.exp(rows).sum(axis=1, keepdims=True))


def compare(binary, kind, folder):
    arch, *builders = KINDS[kind]
    models = [os.path.join(folder, name) for name in (kind + ".gguf", kind + "-peer.gguf")][:len(builders)]
    for model, build in zip(models, builders):
        f = File(model, arch, seed=len(kind))
        build(f)
        f.close()
    model = models[0]
    lengths = LENGTHS.get(kind, PREFIXES)
    prompt = [int(i) for i in numpy.random.default_rng(7).integers(3, N_VOCAB, max(lengths))]
    expected = llama_cpp(models[-1], [prompt[:n] for n in lengths])
    good = True
    for backend, bound in (("ref", 1e-2 if arch == "gemma2" else 1e-3), ("host", 0.06)):
        if kind.endswith("-long") and backend == "ref":
            continue
        worst = numpy.abs(spillway(binary, model, backend, prompt, lengths) - expected)
        spread = expected.max(axis=1).mean() - expected.mean()
        difference = worst.max()
        same = bool(difference <= bound)
        good = good and same
        print(f"{'ok ' if same else 'BAD'} {kind:22} {backend:4} worst |dlogprob| {difference:.2e}"
              f"  (best above mean by {spread:.1f}; by length {', '.join(f'{x:.1e}' for x in worst.max(axis=1))})", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary", nargs="?")
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--keep", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--serve", default="")
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
    if options.list:
        print("\n".join(KINDS))
        return
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.kinds or KINDS:
            try:
                good = compare(options.binary, kind, options.keep or folder) and good
            except RuntimeError as error:
                good = False
                print(f"BAD {kind:22} {error}", flush=True)
    sys.exit(not good)


if __name__ == "__main__":
    main()
