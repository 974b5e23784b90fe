"""What an observer is told through another one."""

from __future__ import annotations

from snellen.runs.progress import Observer, Relay
from snellen.types import Passes


class Heard:
    """Keeps everything that it is told, in order."""

    def __init__(self):
        self.told = []

    def note(self, text):
        self.told.append(("note", text))

    def begin(self, stage, passes, units):
        self.told.append(("begin", stage, passes, units))

    def running(self, what):
        self.told.append(("running", what))

    def passed(self, passes):
        self.told.append(("passed", passes))

    def finished(self, passes):
        self.told.append(("finished", passes))

    def end(self):
        self.told.append(("end",))


def tell(observer):
    observer.note("good news")
    observer.note("old news")
    observer.begin("explaining", Passes(forward=3), 2)
    observer.running("gradient")
    observer.passed(Passes(forward=1))
    observer.finished(Passes(forward=2))
    observer.end()


def test_a_relay_tells_all_with_its_title_and_only_the_wanted_sentences():
    plain, heard = Heard(), Heard()
    relay = Relay(heard, "simple-fr", shows=lambda text: "old" not in text)
    assert isinstance(relay, Observer)
    tell(relay)
    tell(Relay(plain))
    assert plain.told[:3] == [("note", "good news"), ("note", "old news"), ("begin", "explaining", Passes(forward=3), 2)]
    assert heard.told == [
        ("note", "good news"),
        ("begin", "simple-fr: explaining", Passes(forward=3), 2),
        ("running", "simple-fr: gradient"),
        *plain.told[4:],
    ]
    assert [one[0] for one in plain.told[3:]] == ["running", "passed", "finished", "end"]
