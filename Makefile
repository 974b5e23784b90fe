# make demo and make test each do all set-up that they need. PYTHON=python3.12 make ... chooses an interpreter.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt

# Processes that tests start would compile every module again without its bytecode.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo study-demo test coverage test-slow test-exhaustive test-oldest test-browser system check docs format conformance bench bench-methods bench-metrics bench-engines bench-commands bench-start bench-cluster bench-textbox planted-weights digits-weights textbox-models constraints release clean

demo: $(VENV)/demo.stamp          ## seven photographs: a report and cards; 64 scenes: verdicts, cards and a choice of method
	$(BIN)/snellen run demo.yaml
	$(BIN)/snellen cards --run runs/demo --out runs/demo/cards
	$(BIN)/snellen recommend --run runs/demo --need determinism,computational-efficiency --nice hyperparameter-dependence
	$(BIN)/snellen suite --out runs/digits
	$(BIN)/snellen cards --run runs/digits --out runs/digits/cards
	$(BIN)/snellen recommend --run runs/digits --profile radiologist

study-demo: $(VENV)/demo.stamp $(VENV)/study.stamp  ## two studies with people: photographs, and scenes with known reasoning, which is served
	test -e runs/demo/run.json || $(BIN)/snellen run demo.yaml --methods 'grad-cam,guided-backprop,integrated-gradients(steps=12),random' \
	    --metrics average-drop,energy-pointing-game,sparseness
	$(BIN)/python examples/letters.py runs/letters-pictures
	$(BIN)/snellen run examples/letters.yaml
	test -e runs/study-photographs || $(BIN)/snellen study new runs/study-photographs examples/study-photographs.yaml
	test -e runs/study-textbox || $(BIN)/snellen study new runs/study-textbox examples/study-textbox.yaml
	$(BIN)/snellen study serve runs/study-textbox

test: $(VENV)/test.stamp          ## the fast tests
	$(BIN)/python -m pytest -m "not slow and not exhaustive and not browser" -n 2 --dist worksteal

test-slow: $(VENV)/test.stamp     ## tests that start processes, train, or use larger networks
	$(BIN)/python -m pytest -m "slow and not exhaustive" -n 2 --dist worksteal

test-exhaustive: $(VENV)/test.stamp  ## tests that repeat and search for long; about an hour
	$(BIN)/python -m pytest -m exhaustive
	$(BIN)/python -m pytest -m hypothesis --hypothesis-profile=search

coverage: $(VENV)/test.stamp      ## the fast and the slow tests, and which lines of src they never reach: build/coverage/index.html
	$(BIN)/python -m pytest -m "not exhaustive and not browser" -n 2 --dist worksteal --cov --cov-report=term:skip-covered --cov-report=html:build/coverage

test-oldest:                      ## what users meet first, with the oldest versions that pyproject.toml allows
	rm -rf build/oldest && $(PYTHON) -m venv build/oldest
	build/oldest/bin/python tests/oldest_versions.py > build/oldest/oldest.txt
	build/oldest/bin/python -m pip install --disable-pip-version-check --quiet 'torch==2.13.0' -c build/oldest/oldest.txt
	build/oldest/bin/python -m pip install --disable-pip-version-check --quiet -e '.[demo,charts,medical,tiff,datasets]' pytest pytest-timeout beartype hypothesis psutil -c build/oldest/oldest.txt
	build/oldest/bin/python -m pytest -q -o filterwarnings= -o addopts=--import-mode=importlib tests/cli/test_main.py tests/files tests/images tests/report tests/runs/test_evaluate.py tests/runs/test_executors.py -k 'not dask and not address'

test-browser: $(VENV)/test.stamp  ## studies in a real Chromium
	$(BIN)/python -m pytest -m browser -n 2 --dist loadfile tests/study

system:                           ## Debian's PostgreSQL and Chromium, which some tests use; needs root
	command -v chromium && test -d /usr/lib/postgresql || { apt-get update -qq && apt-get install -y -qq postgresql chromium > /dev/null; }

check: $(VENV)/test.stamp         ## format, lint, types, import layers, generated docs
	$(BIN)/ruff format --check src tests benchmarks docs examples
	$(BIN)/ruff check src tests benchmarks docs examples
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/catalogue.py --check
	$(BIN)/python docs/reference.py --check
	$(BIN)/python docs/schemas.py --check
	$(BIN)/python docs/methods.py --check
	$(BIN)/python docs/metrics.py --check

docs: $(VENV)/test.stamp          ## generate the catalogue, docs/reference.md, docs/schema/, docs/methods/, docs/metrics/ and docs/what-works.md
	$(BIN)/python docs/catalogue.py
	$(BIN)/python docs/reference.py
	$(BIN)/python docs/schemas.py
	$(BIN)/python docs/methods.py
	$(BIN)/python docs/metrics.py
	$(BIN)/python -m tests.what_works.page

format: $(VENV)/test.stamp
	$(BIN)/ruff format src tests benchmarks docs examples
	$(BIN)/ruff check --fix src tests benchmarks docs examples

conformance: $(VENV)/test.stamp  ## compare toolkits with expected values: docs/conformance.md
	$(BIN)/snellen conform --with captum,grad-cam,quantus,torchcam --out docs/conformance.md

bench: $(VENV)/test.stamp        ## our time against the neighbours', on the same images in one process
	$(BIN)/python benchmarks/neighbours.py
	$(BIN)/python benchmarks/memory.py

bench-methods: $(VENV)/test.stamp ## every method: passes, time, time in the model, and the same maps by other libraries
	$(BIN)/python benchmarks/methods.py
	$(BIN)/python benchmarks/method_memory.py

bench-metrics: $(VENV)/test.stamp ## every metric and a battery of them: the same scores by other libraries
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/metrics.py --model digits

bench-engines: $(VENV)/test.stamp ## a pass by each engine, and a gradient with each setting that might help
	$(BIN)/python benchmarks/engines.py

bench-commands: $(VENV)/test.stamp ## how long suite, conform and reproduce take; about an hour
	$(BIN)/python benchmarks/commands.py

bench-start: $(VENV)/test.stamp  ## how long help, lists and other quick answers take; about a minute
	$(BIN)/python benchmarks/start.py

bench-cluster: $(VENV)/test.stamp  ## two workers against one, and a simulated cluster of 256; about five minutes
	$(BIN)/python benchmarks/cluster.py
	$(BIN)/python benchmarks/simulate_cluster.py

bench-textbox: $(VENV)/test.stamp  ## scenes per second, and an exam of all methods on all networks; about half an hour
	$(BIN)/python benchmarks/textbox_scenes.py
	$(BIN)/python benchmarks/textbox.py

planted-weights: $(VENV)/test.stamp  ## train the two planted networks of the contract suite again
	$(BIN)/python -m tests.train_planted

digits-weights: $(VENV)/test.stamp   ## train the classifiers of the digit scenes again
	$(BIN)/python -m snellen.zoo.digit_weights

textbox-models: $(VENV)/test.stamp   ## train the seven networks of TextBox again
	$(BIN)/snellen textbox train --all --threads 1 --out src/snellen/textbox/networks/models

constraints:                      ## pin what a fresh resolution gives
	rm -rf $(VENV)/resolve && $(PYTHON) -m venv $(VENV)/resolve
	$(VENV)/resolve/bin/python -m pip install --quiet -e '.[test]' 'torch==2.13.0'
	{ sed -n '/^#/p' constraints.txt; $(VENV)/resolve/bin/python -m pip freeze --exclude-editable | sed 's/+[a-z0-9]*$$//'; } > constraints.new
	mv constraints.new constraints.txt && rm -rf $(VENV)/resolve

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Snellen needs Python 3.11 or newer; try PYTHON=python3.11 make ...")'
	$(PYTHON) -m venv $(VENV)

# torch is named first, so that nothing else can bring in another build of it.
$(VENV)/%.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing what 'make $*' needs (a few minutes the first time)"
	$(PIP) torch
	$(PIP) -e '.[$*]'
	touch $@

release: $(VENV)/test.stamp        ## sdist and wheel in dist/, tried in a fresh environment; CONTRIBUTING.md says what comes before and after
	test -z "$$(git status --porcelain)" || { echo "commit everything first"; exit 1; }
	version=$$($(BIN)/python -c 'import snellen; print(snellen.__version__)'); \
	  grep -qF "## [$$version]" CHANGELOG.md || { echo "CHANGELOG.md has no section $$version"; exit 1; }
	rm -rf dist build && $(BIN)/python -m build --quiet
	tar tzf dist/*.tar.gz | grep -q '/tests/test_readme.py$$' && tar tzf dist/*.tar.gz | grep -q '/docs/cards.md$$'
	$(PYTHON) -m venv build/release && build/release/bin/python -m pip install --quiet -c constraints.txt torch
	build/release/bin/python -m pip install --quiet -c constraints.txt "$$(ls $$PWD/dist/*.whl)[demo]"
	cd build && release/bin/snellen --version && release/bin/snellen run --model digits --images zoo:digits \
	  --methods grad-cam,random --metrics deletion,sparseness --out release/run
	ls -l dist

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
