"""Priorities as they are written: levels, conditions, profiles, and a sentence for every mistake."""

from __future__ import annotations

import pytest

from snellen.cards.priorities import LEVELS, Priorities, Profile, profile_named, profiles, read_cost
from snellen.cards.schema import ATTRIBUTES
from snellen.errors import SnellenError

# The table of the interviews, typed a second time: letters as in the paper's order of the ten attributes.
LETTERS = dict(zip(["D", "H", "A", "E", "S", "I", "L", "M", "Mi", "P"], ATTRIBUTES, strict=True))
INTERVIEWS = {
    "U1": ("D E I L M", "H", "A S Mi P", ""),
    "U2": ("D A I L M", "H", "E S Mi P", ""),
    "U3": ("A I L M P", "D H S Mi", "E", ""),
    "U4": ("I L M", "D H A S P", "E", "Mi"),
    "U5": ("L M P", "D H S Mi", "A E I", ""),
    "U6": ("H L M Mi", "D A E", "S I P", ""),
    "U7": ("H E S I", "A L M Mi P", "D", ""),
    "U8": ("A S Mi", "D H I L P", "E M", ""),
    "U9": ("D H P", "", "S Mi", ""),
}


@pytest.mark.parametrize("user", INTERVIEWS)
def test_the_nine_profiles_are_those_of_the_interviews(user):
    profile = profile_named(user)
    for level, letters in zip(("essential", "nice", "unimportant", "unwanted"), INTERVIEWS[user], strict=True):
        assert {name for name, stated in profile.levels.items() if stated == level} == {
            LETTERS[it] for it in letters.split()
        }, level
    assert profile.task
    assert profile.role


def test_profiles_are_nine_with_names_of_their_own_and_only_one_was_not_asked_all():
    names = [profile.name for profile in profiles()]
    assert len(set(names)) == 9
    assert "radiologist" in names
    assert [profile.user for profile in profiles()] == list(INTERVIEWS)
    partial = [profile for profile in profiles() if len(profile.levels) < len(ATTRIBUTES)]
    assert [profile.name for profile in partial] == ["radiologist"]
    assert "not talked about" in partial[0].note
    assert isinstance(partial[0], Profile)


def test_options_win_over_the_profile():
    priorities = Priorities.read(
        profile="radiologist", nice=["determinism"], unwanted=["minimality"], unimportant=["Hyperparameter dependence"]
    )
    assert priorities.level("determinism") == "nice"
    assert priorities.level("minimality") == "unwanted"
    assert priorities.level("hyperparameter-dependence") == "unimportant"
    assert priorities.level("perceptual-correspondence") == "essential"
    assert priorities.at("essential") == ("perceptual-correspondence",)
    assert priorities.weighed == ("determinism", "minimality", "perceptual-correspondence")


def test_several_names_in_one_word_and_in_several():
    priorities = Priorities.read(need=["determinism, model-sensitivity", "minimality"], avoid_cost="1.5min", black_box=True)
    assert priorities.at("essential") == ("determinism", "model-sensitivity", "minimality")
    assert priorities.avoid_cost == 90
    assert priorities.black_box
    assert {priorities.level(attribute) for attribute in ATTRIBUTES} == {"essential", "unimportant"}
    assert set(LEVELS) > {"essential", "unimportant"}


@pytest.mark.parametrize(
    ("text", "seconds"), [("2s", 2.0), ("500ms", 0.5), (" 0.25 s ", 0.25), (".5s", 0.5), ("2min", 120.0)]
)
def test_costs(text, seconds):
    assert read_cost(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"need": ["determinsm"]}, r"--need has an unknown attribute 'determinsm'; did you mean 'determinism'\?"),
        ({"unwanted": ["speed"]}, "--unwanted has an unknown attribute 'speed'"),
        ({"need": ["minimality"], "unwanted": ["minimality"]}, "minimality cannot be both --need and --unwanted; keep one"),
        ({"need": ["minimality,minimality"], "nice": ["Minimality"]}, "cannot be both --need and --nice"),
        ({"need": ["minimality"], "avoid_cost": "2"}, "--avoid-cost must be a time per image such as 2s or 500ms, not '2'"),
        ({"need": ["minimality"], "avoid_cost": "-2s"}, "not '-2s'"),
        ({"need": ["minimality"], "avoid_cost": "0s"}, "not '0s'"),
        ({"profile": "radiolgist"}, r"there is no profile 'radiolgist'; did you mean 'radiologist'\?"),
        ({}, "nothing was asked for"),
        ({"unimportant": ["minimality"]}, "nothing was asked for"),
        ({"need": [" , "]}, "nothing was asked for"),
    ],
)
def test_a_mistake_is_one_sentence(options, sentence):
    with pytest.raises(SnellenError, match=sentence) as problem:
        Priorities.read(**options)
    assert "\n" not in str(problem.value)


def test_the_same_level_twice_is_no_contradiction():
    assert Priorities.read(need=["minimality", "minimality"]).at("essential") == ("minimality",)
