# Needs Python 3.11 or newer, make and git. Everything else is set up in .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/core
READY := $(VENV)/ready
# Requirements of Flower, and of MLflow and other readers of our files, do not fit those of the other tools.
FLOWER := .venv-flower
ARTIFACTS := .venv-artifacts
# Processes that tests start load what an earlier one compiled.
unexport PYTHONDONTWRITEBYTECODE
# Files go to workers whole, in the order of tests/conftest.py.
WORKERS := -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: help demo demo-network demo-flare demo-flower test test-all test-artifacts test-flower mutants proofs check format docs evidence pages gallery wheel-check \
	release-check bench bench-quick clean

help:
	@echo "make demo         five sites in one process: accuracy, tree, privacy statement"
	@echo "make demo-network three sites and a coordinator as processes, over HTTPS"
	@echo "make demo-flare   the same over NVIDIA FLARE"
	@echo "make demo-flower  the same over Flower"
	@echo "make test         all tests that take seconds"
	@echo "make test-all     these, the ones that take minutes, and the mutants"
	@echo "make test-flower  those that need Flower, in an environment of its own"
	@echo "make test-artifacts those that read our files with MLflow, skops, R ..., likewise"
	@echo "make mutants      plants mistakes in copies of the source; each must be seen by its test"
	@echo "make proofs       the machine-checked proofs, and the code's numbers against them (needs coqc)"
	@echo "make check        lint, format, types, import contract, documentation"
	@echo "make format       rewrite files in the house style"
	@echo "make docs         the documentation as a site, in docs/_build/html"
	@echo "make pages        write all tracked texts that code and measurements make: stub, formats, tables, results"
	@echo "make evidence     full pages and figures of all studies, in docs/_build/evidence"
	@echo "make gallery      run every example of the gallery again and keep its pictures"
	@echo "make wheel-check  build the wheel, look inside, fit a model where nothing else is installed"
	@echo "make release-check checklists, sdist and wheel, README in an empty environment, bill of materials, lock"
	@echo "make bench        speed, each as a ratio to a named reference, and how cost grows"
	@echo "make bench-quick  the same on a few rows, without figures: to see that all of it runs"

# What a user installs: enough for the demo.
$(CORE): pyproject.toml constraints.txt src/hedgerow/kernels/loops.c
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(READY): $(CORE) studies/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,docs]" \
		-r studies/requirements.txt
	@touch $@

$(FLOWER)/ready: pyproject.toml
	@test -x $(FLOWER)/bin/python || $(PYTHON) -m venv $(FLOWER)
	$(FLOWER)/bin/python -m pip install --quiet --disable-pip-version-check -e ".[flower,https]" \
		hypothesis pandas psutil pytest scipy
	@touch $@

# pip of Python 3.11 knows no groups.
$(ARTIFACTS)/ready: pyproject.toml
	@test -x $(ARTIFACTS)/bin/python || $(PYTHON) -m venv $(ARTIFACTS)
	$(ARTIFACTS)/bin/python -m pip install --quiet --disable-pip-version-check "pip>=25.1"
	$(ARTIFACTS)/bin/python -m pip install --quiet --disable-pip-version-check -e . --group artifacts
	@touch $@

demo: $(CORE)
	$(BIN)/hedgerow demo

demo-network: $(CORE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[frames,https]"
	PYTHONPATH=. $(BIN)/python -m examples.network.walk

demo-flare: $(CORE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[flare,frames]" psutil
	PYTHONPATH=. $(BIN)/python -m examples.network.flare

demo-flower: $(FLOWER)/ready
	PYTHONPATH=. $(FLOWER)/bin/python -m examples.network.flower

test: $(READY)
	$(BIN)/python -m pytest $(WORKERS) -m "not slow"

test-all: $(READY)
	$(BIN)/python -m pytest $(WORKERS)
	$(MAKE) test-flower
	$(MAKE) test-artifacts
	$(MAKE) mutants

test-flower: $(FLOWER)/ready
	$(FLOWER)/bin/python -m pytest tests/federation/test_flower*.py

test-artifacts: $(ARTIFACTS)/ready
	$(ARTIFACTS)/bin/python -m pytest -ra tests/report/test_export_cards.py tests/methods/test_saving.py tests/project/test_r.py \
		tests/data/test_spark.py

mutants: $(READY)
	PYTHONPATH=src:tests:. $(BIN)/python -m mutants.run

proofs: $(READY)
	PYTHONPATH=. $(BIN)/python -m proofs.check

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/codespell
	$(BIN)/python -m pytest -q tests/project/test_words.py
	$(MAKE) docs

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

evidence: $(READY)
	PYTHONPATH=. $(BIN)/python -m studies pages

pages: $(READY)
	PYTHONPATH=. $(BIN)/python -m docs.make_pages
	PYTHONPATH=. $(BIN)/python -m studies evidence

docs: $(READY) evidence
	@begun=$$(date +%s) && $(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html && \
	echo "$$(find docs/_build/html -name '*.html' -not -path '*/html/_[ms]*' -not -name genindex.html -not -name search.html | wc -l) pages" \
		"in $$(($$(date +%s) - begun)) seconds; open docs/_build/html/index.html"

gallery: $(READY)
	PYTHONPATH=. $(BIN)/python -m docs.make_gallery

wheel-check: $(READY)
	$(BIN)/python -m pytest tests/project/test_wheel.py

release-check: $(READY)
	$(BIN)/python -m docs.release_check dist $(WHEELS)

bench: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]"
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.growth
	$(BIN)/python -m benchmarks.works
	$(BIN)/python -m benchmarks.sources $(ARTIFACTS)/rows --rows 1e5 --boosted
	$(BIN)/python -m benchmarks.bench_network latency:0 latency:40 latency:200
	$(BIN)/python -m studies evidence

bench-quick: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]"
	$(BIN)/python -m benchmarks.run --quick

clean:
	rm -rf $(VENV) $(FLOWER) $(ARTIFACTS) .pytest_cache .mypy_cache .ruff_cache
