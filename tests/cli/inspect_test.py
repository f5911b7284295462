"""`spillway logits`, `tokenize`, `chat-template` and `bench compare` as a user runs them: results, errors, exit codes."""

import array
import json
import pathlib
import unittest

from spillway_command import CASES, NO_CASES, make_tiny_model, run, temporary_folder

OK, FAILED, USAGE = 0, 1, 2


class InspectTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder_owner = temporary_folder()
        cls.folder = pathlib.Path(cls.folder_owner.name)
        cls.model = make_tiny_model(cls.folder / "tiny.gguf", n_layer=4)

    @classmethod
    def tearDownClass(cls):
        cls.folder_owner.cleanup()

    def check_error(self, process, code, *words):
        text = process.stderr.decode()
        self.assertEqual(process.returncode, code, text)
        for word in words:
            self.assertIn(word, text)

    def logits(self, *arguments, tokens="1,2,3,250,7,7,9,100,31,12,0,255,257,60,61,62,63,64,65,66"):
        out = self.folder / "out.f32"
        process = run("logits", "--model", self.model, "--tokens", tokens, "--out", out, *arguments)
        self.assertEqual(process.returncode, OK, process.stderr.decode())
        return out.read_bytes()


class Logits(InspectTest):
    def test_writes_every_position_of_the_prompt(self):
        for backend in ("ref", "host"):
            self.assertEqual(len(self.logits("--backend", backend, tokens="5,6,7")), 3 * 320 * 4)

    def test_no_split_thread_count_chunk_or_isa_changes_a_bit(self):
        plain = self.logits("--backend", "host")
        variants = [("--split", "1"), ("--split", "1,2,3"), ("--split", "2"), ("--threads", "2"),
                    ("--chunk", "1"), ("--chunk", "7", "--split", "3"), ("--isa", "scalar")]
        for variant in variants:
            with self.subTest(variant):
                self.assertEqual(self.logits("--backend", "host", *variant), plain)

    def test_split_of_the_reference_agrees(self):
        plain = array.array("f", self.logits("--backend", "ref"))
        split = array.array("f", self.logits("--backend", "ref", "--split", "1,3"))
        self.assertLess(max(abs(a - b) for a, b in zip(plain, split)), 1e-4)

    def test_names_bad_arguments(self):
        out = self.folder / "never.f32"

        def attempt(tokens, *more):
            return run("logits", "--model", self.model, "--tokens", tokens, "--out", out, *more)

        self.check_error(attempt("1,320"), USAGE, "320", "element 2")
        self.check_error(attempt("1,-2"), USAGE, "-2")
        self.check_error(attempt("1,,2"), USAGE, "element 2")
        self.check_error(attempt("99999999999999999999"), USAGE)
        self.check_error(attempt(""), USAGE)
        self.check_error(attempt("1", "--split", "4"), USAGE, "block 4")
        self.check_error(attempt("1", "--split", "3,2"), USAGE, "ascend")
        self.check_error(attempt("1", "--split", "2,2"), USAGE, "ascend")
        self.check_error(attempt("1", "--split", "x"), USAGE, "x")
        self.check_error(attempt("1", "--backend", "gpu"), USAGE, "backend")
        self.check_error(attempt("1", "--threads", "0"), USAGE)
        self.check_error(attempt(",".join(["1"] * 2049)), USAGE, "2049", "2048")
        self.assertFalse(out.exists())

    def test_names_bad_files(self):
        out = self.folder / "never.f32"
        whole = self.model.read_bytes()
        broken = {
            "absent.gguf": None,
            "empty.gguf": b"",
            "text.gguf": b"this is not a model\n" * 50,
            "truncated.gguf": whole[: len(whole) // 2],
            "header.gguf": whole[:40],
            "big-endian.gguf": b"GGUF\x00\x00\x00\x03" + whole[8:],
            "architecture.gguf": whole.replace(b"\x05\x00\x00\x00\x00\x00\x00\x00llama",
                                               b"\x05\x00\x00\x00\x00\x00\x00\x00lamma", 1),
        }
        for name, content in broken.items():
            with self.subTest(name):
                path = self.folder / name
                if content is not None:
                    path.write_bytes(content)
                process = run("logits", "--model", path, "--tokens", "1", "--out", out)
                self.check_error(process, FAILED, "lamma" if name.startswith("arch") else name)

    def test_output_that_cannot_be_written_is_an_error(self):
        process = run("logits", "--model", self.model, "--tokens", "1", "--out", self.folder / "no" / "such")
        self.check_error(process, FAILED, "--out")
        process = run("logits", "--model", self.model, "--tokens", "1", "--out", "/dev/full")
        self.check_error(process, FAILED, "--out")


class Tokenize(InspectTest):
    def ids(self, text, *arguments):
        process = run("tokenize", "--model", self.model, *arguments, stdin=text)
        self.assertEqual(process.returncode, OK, process.stderr.decode())
        return json.loads(process.stdout)

    def text(self, ids, *arguments):
        process = run("tokenize", "--model", self.model, "--detokenize", *arguments, stdin=json.dumps(ids).encode())
        self.assertEqual(process.returncode, OK, process.stderr.decode())
        return process.stdout

    def test_counts_a_final_newline_and_keeps_every_byte(self):
        self.assertEqual(self.ids(b""), [])
        for text in (b"a", b"a\n", b"\n\n", b"\xff\xfe\x00\x80 x", "é€𝄞".encode()):
            with self.subTest(text):
                self.assertEqual(self.text(self.ids(text)), text)

    def test_special_tokens_only_when_asked_for(self):
        self.assertIn(257, self.ids(b"<|im_start|>hi", "--special"))
        self.assertNotIn(257, self.ids(b"<|im_start|>hi"))
        self.assertEqual(self.text([257, 104, 105]), b"hi")
        self.assertEqual(self.text([257, 104, 105], "--special"), b"<|im_start|>hi")

    def test_names_bad_ids(self):
        for ids in (b"", b"7", b"[1", b"[1, \"a\"]", b"[-1]", b"[320]", b"[1.5]", b"{}", b"[1e99]", b"[\"\xff\"]"):
            with self.subTest(ids):
                process = run("tokenize", "--model", self.model, "--detokenize", stdin=ids)
                self.check_error(process, USAGE, "detokenize")


class ChatTemplate(InspectTest):
    def test_renders_the_models_own_template(self):
        request = {"messages": [{"role": "user", "content": "hi"}], "add_generation_prompt": True}
        process = run("chat-template", "--model", self.model, stdin=json.dumps(request).encode())
        self.assertEqual(process.returncode, OK, process.stderr.decode())
        self.assertIn(b"<|im_start|>user\nhi<|im_end|>\n", process.stdout)

    def test_names_bad_requests_and_templates(self):
        template = self.folder / "template.jinja"
        template.write_text("{% if %}")
        self.check_error(run("chat-template", "--template", template, stdin=b"{}"), FAILED, "template")
        template.write_text("{{ raise_exception('no such role') }}")
        self.check_error(run("chat-template", "--template", template, stdin=b'{"messages": []}'), FAILED,
                         "no such role")
        for request in (b"", b"[]", b'{"messages": 1}', b'{"messages": [], "now": "noon"}',
                        b'{"messages": [], "bos_token": 1}', b'{"messages": [], "add_generation_prompt": 1}'):
            with self.subTest(request):
                self.check_error(run("chat-template", "--template", template, stdin=request), USAGE)
        self.check_error(run("chat-template", stdin=b"{}"), USAGE)


class Plan(InspectTest):
    def plan(self, *arguments):
        process = run("plan", self.model, "--device", "host", "--json", "--ctx-size", 128, *arguments)
        self.assertEqual(process.returncode, OK, process.stderr)
        return json.loads(process.stdout)

    def test_the_model_is_called_by_its_file(self):
        plan = self.plan("--vram-budget", "64MiB")
        self.assertEqual((plan["model"], plan["title"]), (self.model.stem, "tiny"))

    def test_a_stage_that_is_not_needed_takes_no_threads(self):
        everything = self.plan("--vram-budget", "64MiB", "--cpu-stages", 0)["stages"]
        self.assertEqual(self.plan("--vram-budget", "64MiB", "--cpu-stages", 3)["stages"], everything)
        split = self.plan("--vram-budget", "64MiB", "--cpu-stages", 1, "--n-gpu-layers", 1)["stages"]
        self.assertEqual([stage["threads"] for stage in split], [max(1, everything[0]["threads"] // 2)] * 2)

    def test_short_names_are_those_of_llama_cpp(self):
        # Budgets of its own: what is available changes from one moment to the next.
        long = self.plan("--vram-budget", "64MiB", "--ram-budget", "64MiB", "--n-gpu-layers", 1, "--parallel", 2,
                         "--threads", 1)
        short = run("plan", "-m", self.model, "-c", 128, "-ngl", 1, "-np", 2, "-t", 1, "--device", "host", "--json",
                    "--vram-budget", "64MiB", "--ram-budget", "64MiB")
        self.assertEqual(json.loads(short.stdout), long, short.stderr)
        tokens = run("tokenize", "-m", self.model, stdin=b"ab")
        self.assertEqual(tokens.stdout, run("tokenize", "--model", self.model, stdin=b"ab").stdout)

    def test_pages_of_codes_take_little_more_than_half(self):
        arguments = ("--vram-budget", "64MiB", "--ram-budget", "64MiB", "--threads", 1)
        halves = self.plan(*arguments)["stages"][-1]
        codes = self.plan(*arguments, "-ctk", "q8_0", "--cache-type-v", "q8_0")["stages"][-1]
        self.assertEqual((codes["cache_type_k"], codes["cache_type_v"]), ("q8_0", "q8_0"))
        ratio = codes["bytes"]["kv_cache"] / halves["bytes"]["kv_cache"]
        self.assertTrue(0.5 < ratio < 0.6, ratio)
        self.assertEqual(codes["bytes"]["weights"], halves["bytes"]["weights"])
        self.check_error(run("plan", self.model, "--cache-type-k", "q3_k"), USAGE)

    def test_options_outside_their_limits_are_usage_errors(self):
        for option in (("-c", 0), ("--parallel", 4097), ("-t", "x"), ("--cpu-stages", 65), ("--cpu-stages", -1),
                       ("--threads", 1.5)):
            self.check_error(run("plan", self.model, *option), USAGE)

    def test_layers_are_inclusive_for_people(self):
        process = run("plan", self.model, "--device", "host", "--vram-budget", "64MiB", "--n-gpu-layers", 1)
        self.assertIn(b"embedding + layers 0-", process.stdout)


class CommandLine(InspectTest):
    def test_help_and_version_succeed(self):
        self.assertEqual(run("--help").returncode, OK)
        self.assertEqual(run("logits", "--help").returncode, OK)
        self.assertRegex(run("--version").stdout.decode(), r"^spillway \d+\.\d+\.\d+")

    def test_a_repeatable_option_takes_one_word(self):
        host = ("--device", "host", "--vram-budget", "1KiB")
        process = run("up", *host, "--allowed-host", "chat.example", self.model)
        self.check_error(process, 3, "budget")  # the model was understood and planned

    def test_bad_usage_is_code_two(self):
        for arguments in ((), ("frobnicate",), ("logits",), ("logits", "--frobnicate"), ("tokenize",)):
            with self.subTest(arguments):
                self.check_error(run(*arguments), USAGE, "spillway:")


@unittest.skipUnless(CASES.is_dir(), NO_CASES)
class GoldenCases(InspectTest):
    def test_every_tokenizer_case(self):
        for name in ("smollm", "gpt-2"):
            for case in json.loads((CASES / "tokenizer" / f"{name}.json").read_text()):
                with self.subTest(f"{name}: {case['text']!r}"):
                    process = run("tokenize", "--model", CASES / "tokenizer" / f"{name}.gguf",
                                  stdin=case["text"].encode())
                    self.assertEqual(json.loads(process.stdout), case["ids"])
                    back = run("tokenize", "--model", CASES / "tokenizer" / f"{name}.gguf", "--detokenize",
                               stdin=process.stdout)
                    self.assertEqual(back.stdout, case["text"].encode())

    def test_every_chat_template_case(self):
        for template in sorted((CASES / "chat-template").glob("*.jinja")):
            for case in json.loads(template.with_suffix(".json").read_text()):
                with self.subTest(f"{template.name}: {case['case']}"):
                    process = run("chat-template", "--template", template, stdin=json.dumps(case).encode())
                    if "expected" in case:
                        self.assertEqual(process.stdout.decode(), case["expected"], process.stderr.decode())
                        self.assertEqual(process.returncode, OK)
                    else:
                        self.check_error(process, FAILED, case["error"].split(": ", 1)[-1])

    def test_best_token_of_every_position_through_both_backends(self):
        for name in ("llama", "llama-rope3"):
            manifest = json.loads((CASES / "models" / name / "manifest.json").read_text())
            file = next(entry for entry in manifest["files"] if entry["file"] == "model.gguf")
            prompt = file["prompts"]["long"]
            n_vocab = manifest["n_vocab"]
            for backend in ("ref", "host"):
                with self.subTest(f"{name} {backend}"):
                    out = self.folder / "golden.f32"
                    process = run("logits", "--model", CASES / "models" / name / "model.gguf", "--backend", backend,
                                  "--split", "1", "--tokens", ",".join(map(str, prompt["ids"])), "--out", out)
                    self.assertEqual(process.returncode, OK, process.stderr.decode())
                    values = array.array("f", out.read_bytes())
                    self.assertEqual(len(values), len(prompt["ids"]) * n_vocab)
                    rows = [values[i : i + n_vocab] for i in range(0, len(values), n_vocab)]
                    self.assertEqual([row.index(max(row)) for row in rows], prompt["top1"])


class BenchCompare(InspectTest):
    def compare(self, a, b, *arguments):
        process = run("bench", "compare", a, b, "--tokens", "100", "--ctx-size", "64", "--predict", "4", *arguments)
        self.assertEqual(process.returncode, OK, process.stderr.decode())
        return process.stdout.decode()

    def test_a_file_has_no_divergence_from_itself(self):
        result = json.loads(self.compare(self.model, self.model, "--json"))
        self.assertEqual(result["positions"], 98)  # of each window of 64 and 36 tokens all but the last
        self.assertEqual(result["same_top_token"], 1)
        self.assertEqual(result["kl_divergence"]["max"], 0)
        first, second = result["models"]
        self.assertEqual(first["perplexity"], second["perplexity"])
        for key in ("file_bytes", "weight_bytes", "prefill_tokens_per_second", "ttft_seconds", "decode_tokens_per_second"):
            self.assertGreater(first[key], 0)

    def test_other_weights_diverge_and_the_table_says_so(self):
        other = make_tiny_model(self.folder / "other.gguf", n_layer=4, seed=2)
        result = json.loads(self.compare(self.model, other, "--json"))
        self.assertGreater(result["kl_divergence"]["mean"], 0)
        self.assertLess(result["same_top_token"], 1)
        text = self.compare(self.model, other)
        for word in ("PERPLEXITY", "KL divergence", "tiny", "other"):
            self.assertIn(word, text)

    def test_another_vocabulary_a_missing_text_and_a_short_one_are_named(self):
        other = make_tiny_model(self.folder / "larger.gguf", n_layer=2, n_vocab=384)
        self.check_error(run("bench", "compare", self.model, other), USAGE, "vocabularies differ", "320", "384")
        self.check_error(run("bench", "compare", self.model, self.model, "--text", "no/such"), FAILED, "no/such")
        short = self.folder / "short.txt"
        short.write_text("")
        self.check_error(run("bench", "compare", self.model, self.model, "--text", short), USAGE, "0 tokens")
        self.check_error(run("bench", "race", self.model, self.model), USAGE, "compare")


if __name__ == "__main__":
    unittest.main()
