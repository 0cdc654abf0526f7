# make demo   install into .venv and run the demo
# make test   lint, types and the product's tests
# make test-benchmarks  the tests of benchmarks and training
# make test-neovim  the Neovim plugin's tests, in real Neovims
# make test-vscode  the VS Code extension's lint and tests, in a real workbench
# make clients  others' plugins in real Neovims: SPECLSP_CLIENTS=FOLDER of checkouts; WRITE=1
# make fuzz   random editor traffic into a real server: SECONDS=600, SEED=N for one seed again
# make faults every call on a store's files fails or ends the process: all cases, in a quarter of an hour
# make damaged  every damaged model, statistics file, store, cache and ignore file of the tests
# make lossless  every drafter on every prompt, and a million draws of each kind of draft
# make real   tests with Qwen2.5-Coder's own files: MODELS=FOLDER; WRITE="tokens shown" records anew
# make secrets  every form of secret, typed character by character: SEEDS=20 of each
# make kills  kill the shared engine KILLS=50 times while three windows type; SEED=N for others
# make soak   type into a real server for MINUTES=30; ENGINE=own, FILES=256; the plot is soak.svg
# make bench  run the benchmarks that need no other program; ARGS="-m MODEL.gguf" and other settings
# make peers  build llama-server, which `python -m benchmarks peers` compares with
# make gpu-report  compile llama.cpp for this GPU and measure on it; ARGS="--quick", into gpu-report/
# make gpu-pack    pack what that needs on a machine without a network; PYTHON_VERSION=3.12,
#                  MODEL=FILE takes a model along
# make dist   build the wheel, the sdist, the VSIX and the Neovim plugin, and check them
# make owner  write what owner.toml says into the packages and pages
# make lock   resolve the dependencies anew
# make docs   write the settings pages and the VS Code extension's settings anew
# make clean  remove .venv and everything built
#
# PYTHON=python3.12              another interpreter
# LLAMA_CPP_INDEX=URL            an index of prebuilt llama-cpp-python wheels: nothing is compiled
# CMAKE_ARGS="-DGGML_CUDA=on"    how llama.cpp is compiled (docs/gpu.md); other flags compile it anew

# The tests start hundreds of servers: without bytecode each would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
LLAMA_CPP_INDEX ?=
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
# The stamp of llama.cpp holds what it was installed with: no flags are content with any build.
LLAMA_FLAGS := $(strip $(CMAKE_ARGS) $(LLAMA_CPP_INDEX))
LLAMA_FLAGS_BEFORE := $(strip $(shell cat $(STAMPS)/llama 2>/dev/null))
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
WITH_PROGRESS := $(PYTHON) tools/run_with_progress.py
LOCK := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url \
	--python-version 3.11 --custom-compile-command "make lock" pyproject.toml

.PHONY: owner demo test test-benchmarks test-fast lint types tests fuzz faults damaged lossless real secrets kills soak test-neovim test-vscode clients bench peers gpu-report gpu-pack docs dist lock clean
.DELETE_ON_ERROR:

demo: $(STAMPS)/run
	@$(BIN)/speclsp demo $(ARGS)

test: lint types tests
	@echo "make test: lint, types and tests are fine."

lint: $(STAMPS)/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(STAMPS)/dev
	$(BIN)/mypy

tests: $(STAMPS)/dev
	$(BIN)/pytest -n 2 --ignore=tests/benchmarks --ignore=tests/training --ignore=tests/clients $(ARGS)

test-benchmarks: $(STAMPS)/dev
	$(BIN)/pytest -n 2 tests/benchmarks tests/training $(ARGS)

test-fast: $(STAMPS)/dev
	$(BIN)/pytest -n 3 --fast -r fE --ignore=tests/benchmarks --ignore=tests/training --ignore=tests/clients $(ARGS)

fuzz: $(STAMPS)/dev
	SPECLSP_FUZZ_SECONDS=$(or $(SECONDS),600) SPECLSP_FUZZ_SEED=$(SEED) $(BIN)/pytest -s tests/fuzz $(ARGS)

faults: $(STAMPS)/dev
	SPECLSP_FAULTS_SHARE=1 $(BIN)/pytest -rP -n 2 tests/storage/test_faults.py $(ARGS)

lossless: $(STAMPS)/dev
	SPECLSP_LOSSLESS_STEP=1 $(BIN)/pytest -n 2 tests/lossless tests/backends/test_draft_text.py $(ARGS)

real: $(STAMPS)/dev
	SPECLSP_REAL_MODELS="$(or $(MODELS),$(SPECLSP_REAL_MODELS))" SPECLSP_REAL_WRITE="$(WRITE)" \
		$(BIN)/pytest -n 0 --durations=5 tests/published $(ARGS)

kills: $(STAMPS)/dev
	SPECLSP_KILLS=$(or $(KILLS),50) SPECLSP_KILLS_SEED=$(or $(SEED),1) \
		$(BIN)/pytest -s tests/engine_process/test_real_windows.py $(ARGS)

damaged: $(STAMPS)/dev
	SPECLSP_DAMAGED_STEP=1 $(BIN)/pytest -s tests/backends/llama/test_damaged_models.py \
		tests/storage/test_damaged_stores.py \
		tests/ngrams/test_damaged_files.py tests/models/test_damaged_cache.py \
		tests/project/test_damaged_ignore_files.py $(ARGS)

secrets: $(STAMPS)/dev
	SPECLSP_SECRETS_SEEDS=$(or $(SEEDS),20) $(BIN)/pytest -n 2 tests/secrets/test_prefixes.py \
		tests/completer/test_secrets_forgotten.py $(ARGS)

soak: $(STAMPS)/dev
	SPECLSP_SOAK_MINUTES=$(or $(MINUTES),30) SPECLSP_SOAK_ENGINE=$(or $(ENGINE),shared) \
		SPECLSP_SOAK_FILES=$(or $(FILES),24) $(BIN)/pytest -s tests/fuzz/test_soak.py $(ARGS)

# Fetched before the tests share them; what cannot be fetched is skipped there, with the reason.
# Four at a time on two cores, since they wait most of their time.
test-neovim: $(STAMPS)/dev
	@for suite in forky trixie; do tools/editors/fetch_neovim.sh $$suite >/dev/null || [ $$? -eq 69 ] || exit 1; done
	$(BIN)/pytest -n 4 editors/neovim/tests $(ARGS)

# WRITE=1 writes the table in docs/editors.md and the recordings that `make test` replays.
clients: $(STAMPS)/dev
	@for suite in forky trixie; do tools/editors/fetch_neovim.sh $$suite >/dev/null || [ $$? -eq 69 ] || exit 1; done
	SPECLSP_CLIENTS_WRITE="$(WRITE)" $(BIN)/pytest -n 2 tests/clients $(ARGS)

test-vscode: $(STAMPS)/run
	@SPECLSP_SERVER="$${SPECLSP_SERVER:-$(CURDIR)/$(BIN)/speclsp}" tools/editors/test_vscode.sh

# The longest take minutes each on two cores.
bench: $(STAMPS)/dev
	$(BIN)/python -m benchmarks host $(ARGS)
	$(BIN)/python -m benchmarks drafters fixtures/cases/starlette $(ARGS)
	$(BIN)/python -m benchmarks speculation fixtures/cases/cases.jsonl $(ARGS)
	$(BIN)/python -m benchmarks typing fixtures/cases/cases.jsonl $(ARGS)
	$(BIN)/python -m benchmarks quality fixtures/cases/cases.jsonl $(ARGS)
	$(BIN)/python -m benchmarks points fixtures/points/points.jsonl $(ARGS)
	$(BIN)/python -m benchmarks healing fixtures/sample_project/shop/*.py $(ARGS)
	$(BIN)/python -m benchmarks index $(ARGS)

peers:
	@tools/peers/build_llama_server.sh $(ARGS)

docs: $(STAMPS)/run
	$(BIN)/python tools/settings_table.py docs
	$(BIN)/python tools/vscode_settings.py

gpu-report: $(STAMPS)/dev
	@PYTHON=$(CURDIR)/$(BIN)/python tools/gpu_report.sh $(ARGS)

gpu-pack: $(STAMPS)/dev
	@PYTHON=$(CURDIR)/$(BIN)/python tools/gpu_report.sh --pack speclsp-gpu.tar.xz $(MODEL)

dist: $(STAMPS)/run
	@tools/make_dist.sh $(BIN)/python

owner:
	@$(PYTHON) tools/owner.py

lock: $(STAMPS)/venv
	$(PIP) install --quiet "uv>=0.9"
	$(LOCK) $(ARGS) --extra build -o requirements.lock
	$(LOCK) $(ARGS) --extra build --extra dev -o requirements-dev.lock

clean:
	rm -rf $(VENV) build dist speclsp-gpu.tar.xz *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find speclsp benchmarks tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

# Everything is checked before the first thing is downloaded.
$(STAMPS)/venv:
	@command -v $(PYTHON) >/dev/null || { \
		echo "Problem: no $(PYTHON) was found. Install Python 3.11 or newer." >&2; exit 1; }
	@$(PYTHON) speclsp/install_llama_cpp.py --check --no-compiler
	@$(WITH_PROGRESS) "Making $(VENV)" /dev/null $(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS)
	@touch $@

ifneq ($(LLAMA_FLAGS),)
ifneq ($(LLAMA_FLAGS),$(LLAMA_FLAGS_BEFORE))
.PHONY: $(STAMPS)/llama
LLAMA_ANEW := --anew
endif
endif

$(STAMPS)/llama: $(STAMPS)/venv
	@rm -f $@
	@$(PYTHON) speclsp/install_llama_cpp.py --python $(BIN)/python --lock requirements.lock \
		$(LLAMA_ANEW) $(if $(LLAMA_CPP_INDEX),--index $(LLAMA_CPP_INDEX))
	@printf '%s %s\n' "$$CMAKE_ARGS" "$$LLAMA_CPP_INDEX" > $@

# A prebuilt wheel satisfies the lock's version although its hash is another.
$(STAMPS)/run: $(STAMPS)/llama requirements.lock pyproject.toml
	@$(WITH_PROGRESS) "Installing speclsp" $(VENV)/run.log sh -c '\
		$(PIP) install -r requirements.lock && \
		$(PIP) install --no-deps --no-build-isolation --editable .'
	@touch $@

$(STAMPS)/dev: $(STAMPS)/run requirements-dev.lock
	@$(WITH_PROGRESS) "Installing the tools of the tests" $(VENV)/dev.log \
		$(PIP) install --no-compile -r requirements-dev.lock
	@touch $@
