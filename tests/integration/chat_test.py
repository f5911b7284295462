"""`spillway run` on a terminal: the commands of the chat, a context that fills up, sampling options, exit codes."""

import os
import pathlib
import pty
import select
import subprocess
import time
import unittest

from spillway_command import BINARY, make_tiny_model, run, temporary_folder

LIMIT = 120
START = ("--device", "host", "--vram-budget", "64MiB", "--port", "0", "--port-base", "0")


class Terminal:
    """A command on a pseudo terminal."""

    def __init__(self, *arguments):
        self.pid, self.handle = pty.fork()
        if self.pid == 0:
            os.execv(str(BINARY), [str(BINARY), *map(str, arguments)])

    def read_until(self, word, limit=LIMIT):
        """The text up to and with `word`."""
        text = b""
        deadline = time.monotonic() + limit
        while word not in text and time.monotonic() < deadline:
            if not select.select([self.handle], [], [], 1)[0]:
                continue
            try:
                text += os.read(self.handle, 1)
            except OSError:  # the other side is closed
                break
        if word not in text:
            raise AssertionError(f"no {word!r} within {limit} s: {text.decode(errors='replace')}")
        return text.decode(errors="replace")

    def ask(self, line):
        """What is printed until the next prompt."""
        os.write(self.handle, line.encode() + b"\n")
        self.read_until(b"\n")  # the echo
        return self.read_until(b"\n> ")

    def end(self, keys):
        os.write(self.handle, keys)
        text = ""
        while True:
            try:
                block = os.read(self.handle, 4096)
            except OSError:
                break
            if not block:
                break
            text += block.decode(errors="replace")
        os.close(self.handle)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]), text


class Chat(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder_owner = temporary_folder()
        cls.model = make_tiny_model(pathlib.Path(cls.folder_owner.name) / "tiny.gguf")

    @classmethod
    def tearDownClass(cls):
        cls.folder_owner.cleanup()

    def start(self, *arguments):
        terminal = Terminal("run", self.model, *START, *arguments)
        terminal.read_until(b"> ")
        return terminal

    def test_commands(self):
        terminal = self.start("--ctx-size", 256, "--predict", 4)
        self.assertIn("/clear", terminal.ask("/help"))
        terminal.ask("one")
        self.assertIn("orgotten", terminal.ask("/clear"))
        self.assertIn("/nonsense is no command", terminal.ask("/nonsense"))
        code, text = terminal.end(b"/bye\n")
        self.assertEqual(code, 0, text)
        self.assertIn("tokens/s", text)

    def test_the_end_of_input_leaves(self):
        self.assertEqual(self.start("--ctx-size", 256).end(b"\x04")[0], 0)

    def test_a_full_context_costs_the_oldest_turns_and_the_chat_goes_on(self):
        terminal = self.start("--ctx-size", 256, "--predict", 20)
        text = ""
        for i in range(12):
            answer = terminal.ask(f"question number {i} of the conversation")
            self.assertNotIn("the API answers", answer)
            text += answer
        self.assertIn("forgotten", text)
        self.assertIn("the API answers 400", terminal.ask("word " * 200))
        self.assertNotIn("the API answers", terminal.ask("short"))
        self.assertEqual(terminal.end(b"/bye\n")[0], 0)


class Options(unittest.TestCase):
    setUpClass = classmethod(Chat.setUpClass.__func__)
    tearDownClass = classmethod(Chat.tearDownClass.__func__)

    def answer(self, *arguments, tokens=12):
        process = subprocess.run(
            [str(BINARY), "run", str(self.model), *START, "-c", "256", "-p", "hello", "-n", str(tokens),
             *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=LIMIT)
        self.assertEqual(process.returncode, 0, process.stderr)
        return process.stdout.split(b"WORKER")[0]

    def test_sampling_options_reach_the_model(self):
        greedy = self.answer()
        drawn = self.answer("--temp", "2", "--seed", "7")
        self.assertNotEqual(drawn, greedy)
        self.assertEqual(self.answer("--temp", "2", "--seed", "7"), drawn)
        self.assertEqual(self.answer("--temp", "2", "--top-k", "1"), greedy)
        self.assertEqual(self.answer("--temp", "2", "--top-p", "0.0001", "--min-p", "0"), greedy)
        self.assertEqual(self.answer("--temp", "2", "--min-p", "0.9999"), greedy)
        self.assertNotEqual(self.answer("--repeat-penalty", "9"), greedy)

    def test_the_answer_follows_a_schema(self):
        schema = pathlib.Path(self.folder_owner.name) / "schema.json"
        schema.write_text('{"const": {"b": [1], "a": "x"}}')
        self.assertIn(b'{"b":[1],"a":"x"}', self.answer("--json-schema", str(schema), tokens=60))
        self.assertTrue(self.answer("--json").lstrip().startswith(b"{"))
        schema.write_text('{"const": ')
        process = run("run", self.model, *START, "--prompt", "a", "--json-schema", schema)
        self.assertEqual(process.returncode, 2, process.stderr)
        self.assertIn(b"cannot be read as JSON", process.stderr)

    def test_values_out_of_range_are_usage_errors(self):
        for option in (("--temp", "3"), ("--top-p", "0"), ("--min-p", "1"), ("--top-k", "-1"), ("--top-k", "1.5"), ("--seed", "x"),
                       ("--predict", "-2"), ("--repeat-penalty", "0")):
            process = run("run", self.model, *START, "--prompt", "a", *option)
            self.assertEqual(process.returncode, 2, (option, process.stderr))
            self.assertIn(option[0].encode(), process.stderr)


if __name__ == "__main__":
    unittest.main()
