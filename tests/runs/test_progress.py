"""A relay passes calls on to another observer."""

from __future__ import annotations

from snellen.runs.progress import Observer, Relay
from snellen.types import Passes


class CallRecorder:
    """Records every call, in order."""

    def __init__(self):
        self.calls = []

    def note(self, text):
        self.calls.append(("note", text))

    def begin(self, stage, passes, units):
        self.calls.append(("begin", stage, passes, units))

    def running(self, what):
        self.calls.append(("running", what))

    def passed(self, passes):
        self.calls.append(("passed", passes))

    def finished(self, passes):
        self.calls.append(("finished", passes))

    def end(self):
        self.calls.append(("end",))


def call_all(observer):
    observer.note("good news")
    observer.note("old news")
    observer.begin("explaining", Passes(forward=3), 2)
    observer.running("gradient")
    observer.passed(Passes(forward=1))
    observer.finished(Passes(forward=2))
    observer.end()


def test_a_relay_adds_its_title_and_filters_notes():
    plain, titled = CallRecorder(), CallRecorder()
    relay = Relay(titled, "simple-fr", shows=lambda text: "old" not in text)
    assert isinstance(relay, Observer)
    call_all(relay)
    call_all(Relay(plain))
    assert plain.calls[:3] == [("note", "good news"), ("note", "old news"), ("begin", "explaining", Passes(forward=3), 2)]
    assert titled.calls == [
        ("note", "good news"),
        ("begin", "simple-fr: explaining", Passes(forward=3), 2),
        ("running", "simple-fr: gradient"),
        *plain.calls[4:],
    ]
    assert [call[0] for call in plain.calls[3:]] == ["running", "passed", "finished", "end"]
