"""What several processes do to one store at the same time; run as a program, so that each has its own interpreter."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from snellen.study.folder import Study
from snellen.study.store import Store


def arrive(store: Store, names: list[str], threads: int) -> None:
    """Everybody at once, each twice, as impatient people do."""

    def one(name: str) -> None:
        store.admit(token=name, language="en", simulated=False, recruited={})

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(one, [*names, *names]))


def answer(store: Store) -> None:
    """Answers page after page and says so, until somebody ends the process."""
    person = store.admit(token="only", language="en", simulated=False, recruited={})
    for page in range(100_000):
        assert store.reply(person, f"p{page:05d}", {"value": page}, 1.0, last=False)
        print(page, flush=True)


if __name__ == "__main__":
    what, folder, url, *rest = sys.argv[1:]
    opened = Store.open(Study.read(folder), url)
    print("ready", flush=True)
    sys.stdin.readline()
    if what == "answer":
        answer(opened)
    else:
        arrive(opened, rest, 8)
    opened.close()
