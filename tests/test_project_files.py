"""The files around the code are well-formed and agree with each other."""

import re
import tomllib
from pathlib import Path

import pytest

import swr

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install 'soft-weight-rescaling[dev]'")

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(name):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


@pytest.fixture
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def commands(job):
    return "\n".join(step.get("run", "") for step in job["steps"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_the_keys_that_it_needs(path):
    workflow = read(path)
    assert {"name", True, "permissions", "jobs"} == set(workflow)  # YAML reads `on` as true
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert set(job) <= {"runs-on", "timeout-minutes", "strategy", "steps", "uses", "needs", "environment", "permissions"}
        assert "uses" in job or {"runs-on", "timeout-minutes", "steps"} <= set(job)
        assert all(name in workflow["jobs"] for name in job.get("needs", ()))
        for step in job.get("steps", ()):
            assert set(step) <= {"name", "uses", "run", "with"}
            assert ("uses" in step) != ("run" in step)
            assert "@" in step.get("uses", "@")


def test_the_workflow_tests_lints_and_builds_the_site_as_the_documentation_says():
    jobs = read(".github/workflows/tests.yml")["jobs"]
    assert jobs["tests"]["strategy"]["matrix"]["python-version"] == ["3.11", "3.13"]
    assert "python -m pytest" in commands(jobs["tests"])
    assert {"ruff check", "ruff format --check", "mypy"} <= set(commands(jobs["lint"]).splitlines())
    assert "python -m sphinx -W -b html docs docs/_build/html" in commands(jobs["docs"])


def test_a_release_is_published_only_after_the_tests_and_with_the_tag_of_its_version():
    workflow = read(".github/workflows/release.yml")
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    jobs = workflow["jobs"]
    assert jobs["publish"]["needs"] == ["tests", "build"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}  # and no token
    assert "secrets" not in (ROOT / ".github/workflows/release.yml").read_text()
    assert '"$GITHUB_REF_NAME" != "v$version"' in commands(jobs["build"])
    assert "twine check --strict dist/*" in commands(jobs["build"])


def test_the_forms_for_issues_have_what_the_form_schema_asks_for():
    for name in ("bug", "idea"):
        form = read(f".github/ISSUE_TEMPLATE/{name}.yml")
        assert {"name", "description", "body"} <= set(form)
        assert {field["type"] for field in form["body"]} <= {"textarea", "input", "dropdown", "checkboxes", "markdown"}
        assert all(field["attributes"]["label"] for field in form["body"])
        ids = [field["id"] for field in form["body"]]
        assert len(set(ids)) == len(ids)


def test_pre_commit_runs_ruff_and_mypy():
    [repository] = read(".pre-commit-config.yaml")["repos"]
    assert [hook["entry"].split()[0] for hook in repository["hooks"]] == ["ruff", "ruff", "mypy"]
    assert all({"id", "name", "entry", "language"} <= set(hook) for hook in repository["hooks"])


def test_the_citation_names_the_software_and_the_paper(project):
    citation = read("CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert citation["license"] == project["license"]
    assert citation["version"] == swr.__version__
    [paper] = citation["references"]
    readme = (ROOT / "README.md").read_text()
    assert paper["title"] in re.sub(r"\s+", " ", readme)
    assert [author["family-names"] for author in paper["authors"]] == ["Oh", "Park", "Han", "Kim"]


def test_the_changelog_begins_with_this_version():
    first = next(line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## "))
    assert re.fullmatch(rf"## ({re.escape(swr.__version__)} \(\d{{4}}-\d\d-\d\d\)|Unreleased)", first)


def test_every_requirement_has_a_tested_version(project):
    tested = {line.partition("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    needed = [*project["dependencies"], *(line for lines in project["optional-dependencies"].values() for line in lines)]
    names = {re.match(r"[\w.-]+", line)[0] for line in needed} - {project["name"]}
    assert sorted(names - tested) == []


def test_every_example_is_in_the_list_of_examples():
    listed = re.findall(r"^\| `(.+?)` \|", (ROOT / "examples" / "README.md").read_text(), flags=re.M)
    assert sorted(listed) == sorted(p.name for p in (ROOT / "examples").iterdir() if p.suffix in (".py", ".ipynb"))
