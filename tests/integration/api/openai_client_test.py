#!/usr/bin/env python3
"""The `openai` package against a running cluster: what its users do must work unchanged.

SPILLWAY_API is the base URL, such as http://127.0.0.1:8080; without it, or without the package, the tests are skipped
(exit code 77). The model may be any that has a chat template; nothing is asserted about what it says.
"""

import json
import os
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request

BASE = os.environ.get("SPILLWAY_API", "").rstrip("/")
SKIPPED = 77

try:
    import openai
except ImportError:
    openai = None

QUESTION = [{"role": "user", "content": "Count from one to ten in words."}]


def client(**options):
    options.setdefault("max_retries", 0)
    return openai.OpenAI(base_url=BASE + "/v1", api_key="none", timeout=300, **options)


def running_requests():
    """Requests the gateway works on, or None where its metrics are not given (SPILLWAY_METRICS)."""
    url = os.environ.get("SPILLWAY_METRICS")
    if not url:
        return None
    with urllib.request.urlopen(url, timeout=10) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("spillway_requests_running{"):
                return float(line.rsplit(" ", 1)[1])
    return None


class OpenAiClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.api = client()
        cls.model = cls.api.models.list().data[0].id

    def chat(self, **options):
        options.setdefault("messages", QUESTION)
        options.setdefault("max_tokens", 12)
        options.setdefault("temperature", 0)
        return self.api.chat.completions.create(model=self.model, **options)

    def test_models_are_listed_and_found(self):
        self.assertEqual(self.api.models.retrieve(self.model).id, self.model)
        with self.assertRaises(openai.NotFoundError):
            self.api.models.retrieve("no-such-model")

    def test_chat_answers_with_usage(self):
        answer = self.chat()
        self.assertEqual(answer.object, "chat.completion")
        self.assertEqual(answer.choices[0].message.role, "assistant")
        self.assertIn(answer.choices[0].finish_reason, ("stop", "length"))
        self.assertGreater(answer.usage.prompt_tokens, 0)
        self.assertLessEqual(answer.usage.completion_tokens, 12)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
        self.assertEqual(answer.usage.prompt_tokens_details.cached_tokens, 0)

    def test_content_parts_and_text_are_the_same_prompt(self):
        parts = [{"role": "user", "content": [{"type": "text", "text": QUESTION[0]["content"]}]}]
        self.assertEqual(self.chat().choices[0].message.content, self.chat(messages=parts).choices[0].message.content)

    def test_stream_equals_the_whole_answer(self):
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        whole = self.chat()
        self.assertEqual(text, whole.choices[0].message.content)
        reasons = [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason]
        self.assertEqual(reasons, [whole.choices[0].finish_reason])
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual(len({c.id for c in chunks}), 1)

    def test_stream_without_usage_has_none(self):
        chunks = list(self.chat(stream=True))
        self.assertTrue(all(c.choices and c.usage is None for c in chunks))

    def test_a_stop_string_ends_the_text_and_is_not_in_it(self):
        whole = self.chat(max_tokens=24).choices[0].message.content
        words = whole.split(" ")
        if len(words) < 3:
            self.skipTest("the model says too little to stop in")
        stop = " " + words[2]
        stopped = self.chat(max_tokens=24, stop=[stop]).choices[0]
        self.assertEqual(stopped.message.content, whole[: whole.index(stop)])
        self.assertEqual(stopped.finish_reason, "stop")
        streamed = self.chat(max_tokens=24, stop=stop, stream=True)
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in streamed), stopped.message.content)

    def test_a_seed_repeats_and_another_differs(self):
        def sample(seed):
            return self.chat(temperature=1.5, seed=seed, max_tokens=24).choices[0].message.content

        self.assertEqual(sample(7), sample(7))
        self.assertGreater(len({sample(seed) for seed in range(4)}), 1)

    def test_chat_logprobs_belong_to_the_text(self):
        choice = self.chat(logprobs=True, top_logprobs=3).choices[0]
        text = b"".join(bytes(t.bytes) for t in choice.logprobs.content).decode(errors="replace")
        self.assertEqual(text, choice.message.content)
        for token in choice.logprobs.content:
            self.assertLessEqual(token.logprob, 0)
            self.assertEqual(len(token.top_logprobs), 3)
            # Greedy decoding takes the first of them.
            self.assertAlmostEqual(token.top_logprobs[0].logprob, token.logprob, places=5)

    def test_completions_take_text_and_ids(self):
        answer = self.api.completions.create(
            model=self.model, prompt="The capital of France is", max_tokens=4, temperature=0, logprobs=2
        )
        logprobs = answer.choices[0].logprobs
        self.assertEqual(answer.object, "text_completion")
        self.assertEqual(len(logprobs.tokens), len(logprobs.token_logprobs))
        self.assertEqual(logprobs.text_offset[0], 0)
        ids = self.api.completions.create(model=self.model, prompt=[1, 2, 3], max_tokens=2, temperature=0)
        self.assertEqual(ids.usage.prompt_tokens, 3)
        text = "".join(
            c.choices[0].text
            for c in self.api.completions.create(
                model=self.model, prompt="The capital of France is", max_tokens=4, temperature=0, stream=True
            )
        )
        self.assertEqual(text, answer.choices[0].text)

    def test_extensions_reach_a_length(self):
        answer = self.chat(max_tokens=20, extra_body={"ignore_eos": True, "min_tokens": 20})
        self.assertEqual(answer.usage.completion_tokens, 20)
        self.assertEqual(answer.choices[0].finish_reason, "length")
        self.assertGreater(answer.timings["predicted_per_second"], 0)

    def test_a_schema_is_followed(self):
        schema = {
            "type": "object",
            "properties": {
                "zip": {"type": "string", "pattern": "^[0-9]{5}$"},
                "colors": {"type": "array", "items": {"enum": ["red", "green"]}, "minItems": 1, "maxItems": 3},
                "age": {"type": "integer", "minimum": 1, "maximum": 99},
                "note": {"type": "string", "maxLength": 40},
            },
            "required": ["zip", "colors", "age", "note"],
            "additionalProperties": False,
        }
        form = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": schema}}
        for temperature in (0, 1.5):
            answer = self.chat(response_format=form, temperature=temperature, seed=7, max_tokens=200)
            self.assertEqual(answer.choices[0].finish_reason, "stop")
            value = json.loads(answer.choices[0].message.content)
            self.assertEqual(list(value), ["zip", "colors", "age", "note"])
            self.assertRegex(value["zip"], "^[0-9]{5}$")
            self.assertTrue(1 <= len(value["colors"]) <= 3 and set(value["colors"]) <= {"red", "green"})
            self.assertTrue(1 <= value["age"] <= 99 and len(value["note"]) <= 40)
        cut = self.chat(response_format={"type": "json_object"}, max_tokens=3)
        self.assertEqual(cut.choices[0].finish_reason, "length")
        self.assertTrue(cut.choices[0].message.content.lstrip().startswith("{"))

    def test_bad_requests_name_the_parameter(self):
        cases = {
            "temperature": {"temperature": 3},
            "max_tokens": {"max_tokens": 10**12},
            "top_logprobs": {"logprobs": True, "top_logprobs": 10**6},
            "n": {"n": 100},
            "tools": {"tools": [{"type": "function", "function": {"name": "f"}}]},
            "response_format": {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"not": {}}}}},
        }
        for param, options in cases.items():
            with self.subTest(param=param), self.assertRaises(openai.BadRequestError) as caught:
                self.chat(**options)
            self.assertEqual(caught.exception.param, param)
        with self.assertRaises(openai.NotFoundError) as caught:
            self.api.chat.completions.create(model="no-such-model", messages=QUESTION)
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.api.completions.create(model=self.model, prompt=[1] * 1_000_000, max_tokens=1)
        self.assertIn(caught.exception.code, ("context_length_exceeded", "invalid_json"))

    def test_eight_at_once_say_what_one_says(self):
        questions = [[{"role": "user", "content": f"Say something about the number {i}."}] for i in range(8)]
        alone = [self.chat(messages=q).choices[0].message.content for q in questions]
        together = [None] * len(questions)

        def ask(i):
            pieces = client(max_retries=5).chat.completions.create(
                model=self.model, messages=questions[i], max_tokens=12, temperature=0, stream=True
            )
            together[i] = "".join(c.choices[0].delta.content or "" for c in pieces)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(questions))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(together, alone)

    def test_leaving_a_stream_frees_its_place(self):
        stream = self.chat(max_tokens=1000, stream=True, extra_body={"ignore_eos": True}) if self.room(1000) else None
        if stream is None:
            self.skipTest("the context is too short to tell a cancel from an end")
        next(iter(stream))
        stream.close()
        if running_requests() is not None:
            deadline = time.monotonic() + 60
            while running_requests() != 0:
                self.assertLess(time.monotonic(), deadline, "the abandoned request still runs")
                time.sleep(0.05)
        self.assertIn(self.chat(max_tokens=2).choices[0].finish_reason, ("stop", "length"))

    def room(self, tokens):
        try:
            self.chat(max_tokens=tokens, stream=True).close()
            return True
        except openai.BadRequestError:
            return False

    def test_pages_answer_json(self):
        with urllib.request.urlopen(BASE + "/health", timeout=10) as answer:
            self.assertEqual(json.load(answer)["status"], "ok")
        with self.assertRaises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(BASE + "/nowhere", timeout=10)
        self.assertEqual(caught.exception.code, 404)
        self.assertIn("/v1", json.load(caught.exception)["error"]["message"])


if __name__ == "__main__":
    if not BASE or openai is None:
        print("skipped: " + ("the openai package is not installed" if BASE else "SPILLWAY_API is not set"))
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
