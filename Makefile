# Everything a developer does; each target sets up what it needs on a fresh machine.
PYTHON ?= python3
BIN := .venv/bin
SERVICE_PACKAGES := postgresql chromium nginx-light

.PHONY: setup demo test check check-web serve test-realdata clean system

setup: .venv/.ready

.venv/.ready: pyproject.toml setup.py constraints.txt $(wildcard src/igcf/online/compiled/*)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,service,scale]' --group dev
	touch $@

demo: setup
	$(BIN)/igcf demo --out demo

serve: setup
	$(BIN)/igcf serve --demo --open

check: setup check-web
	$(BIN)/ruff format --check src tests tools
	$(BIN)/ruff check src tests tools
	$(BIN)/mypy
	$(BIN)/lint-imports

# The page needs no build; its scripts are checked by eslint and by TypeScript, which read the types in JSDoc comments.
check-web: node_modules/.ready
	node_modules/.bin/eslint src/igcf/service/web
	node_modules/.bin/tsc --project tsconfig.json

node_modules/.ready: package.json package-lock.json
	command -v npm >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq nodejs npm; }
	npm ci --silent --no-audit --no-fund
	touch $@

# Tests talk to a real PostgreSQL, a real browser and a real proxy; Debian's packages are installed where missing.
system:
	@missing=; command -v chromium >/dev/null || missing=1; \
	PATH=$$PATH:/usr/sbin command -v nginx >/dev/null || missing=1; \
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing=1; \
	if [ -n "$$missing" ]; then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(SERVICE_PACKAGES); fi

test: setup system
	$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder

test-realdata: setup
	$(BIN)/pytest -q -m realdata

clean:
	rm -rf .venv node_modules demo build dist
