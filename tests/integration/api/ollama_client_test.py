#!/usr/bin/env python3
"""The `ollama` package against a running cluster: what its users do must work unchanged.

SPILLWAY_API is the base URL; without it, or without the package, the tests are skipped (exit code 77). SPILLWAY_MODEL is
the name that the model must have, when it is given. Nothing is asserted about what the model says.
"""

import os
import sys
import unittest

BASE = os.environ.get("SPILLWAY_API", "").rstrip("/")
SKIPPED = 77

try:
    import ollama
except ImportError:
    ollama = None

QUESTION = [{"role": "user", "content": "Count from one to five."}]
GREEDY = {"temperature": 0, "num_predict": 8}


class OllamaClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.api = ollama.Client(host=BASE, timeout=300)
        cls.model = cls.api.list().models[0].model

    def test_the_model_is_listed_shown_and_loaded(self):
        listed = self.api.list().models[0]
        self.assertIn(":", listed.model)
        self.assertEqual(listed.model, os.environ.get("SPILLWAY_MODEL", listed.model))
        self.assertGreater(listed.size, 0)
        self.assertEqual(listed.details.format, "gguf")
        shown = self.api.show(self.model)
        self.assertIn("completion", shown.capabilities)
        self.assertEqual(shown.modelinfo["general.architecture"], listed.details.family)
        loaded = self.api.ps().models[0]
        self.assertEqual(loaded.model, self.model)
        self.assertGreater(loaded.size, 0)
        self.assertEqual(loaded.size_vram, 0)  # the host device
        self.assertIsNotNone(loaded.expires_at)

    def test_chat_whole_and_streamed_are_the_same(self):
        whole = self.api.chat(self.model, QUESTION, options=GREEDY)
        self.assertTrue(whole.done)
        self.assertIn(whole.done_reason, ("stop", "length"))
        self.assertGreater(whole.prompt_eval_count, 0)
        self.assertLessEqual(whole.eval_count, 8)
        self.assertGreater(whole.total_duration, whole.eval_duration)
        self.assertGreater(whole.prompt_eval_duration, 0)
        parts = list(self.api.chat(self.model, QUESTION, options=GREEDY, stream=True))
        self.assertEqual("".join(part.message.content or "" for part in parts), whole.message.content)
        self.assertEqual([part.done for part in parts], [False] * (len(parts) - 1) + [True])

    def test_generate_with_and_without_the_template(self):
        answer = self.api.generate(self.model, "Hello", system="Be brief.", options=GREEDY)
        self.assertTrue(answer.done)
        raw = self.api.generate(self.model, "One two three", raw=True, options={**GREEDY, "num_predict": 4})
        self.assertEqual(raw.eval_count, 4)
        parts = list(self.api.generate(self.model, "One two three", raw=True, options={**GREEDY, "num_predict": 4},
                                       stream=True))
        self.assertEqual("".join(part.response for part in parts), raw.response)

    def test_an_empty_prompt_loads(self):
        self.assertEqual(self.api.generate(self.model, "").done_reason, "load")
        self.assertEqual(self.api.chat(self.model, []).done_reason, "load")

    def test_a_seed_repeats(self):
        def sample(seed):
            options = {"temperature": 1.5, "seed": seed, "num_predict": 16}
            return self.api.chat(self.model, QUESTION, options=options).message.content

        self.assertEqual(sample(7), sample(7))

    def test_refusals_are_said(self):
        for options in ({"num_ctx": 10**6}, {"temperature": 3}, {"mirostat": 2}):
            with self.subTest(options), self.assertRaises(ollama.ResponseError) as caught:
                self.api.chat(self.model, QUESTION, options=options)
            self.assertEqual(caught.exception.status_code, 400)
            self.assertIn("options." + next(iter(options)), caught.exception.error)
        with self.assertRaises(ollama.ResponseError) as caught:
            self.api.chat("no-such-model", QUESTION)
        self.assertEqual(caught.exception.status_code, 404)
        with self.assertRaises(ollama.ResponseError) as caught:
            self.api.embed(self.model, "text")
        self.assertEqual(caught.exception.status_code, 404)


if __name__ == "__main__":
    if not BASE or ollama is None:
        print("skipped: " + ("the ollama package is not installed" if BASE else "SPILLWAY_API is not set"))
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
