.PHONY: install run test bench lint lock clean
export PYTHON

install: ## set up .venv
	scripts/install

run: ## show the loop
	scripts/run

test: ## style, types, tests
	scripts/test

bench: ## speed figures
	scripts/bench

lint: ## style and types only
	scripts/lint

lock: ## renew requirements.lock from pyproject.toml
	scripts/lock

clean: ## forget the environment and all caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
