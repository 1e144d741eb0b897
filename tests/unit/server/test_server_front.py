"""The front of the room: what is there with the extra, and what without."""

import asyncio
import subprocess
import sys

import httpx
import pytest
from typer.testing import CliRunner

from alloc.cli.application import app as program
from alloc.errors import BackendUnavailableError, InstanceError
from alloc.server import Settings, create_app, serve, serve_in_background


def test_the_application_runs_under_any_asgi_server(settings):
    """It opens and closes what it needs itself, as the protocol says."""
    app = create_app(settings.replace(workers=1, preload=False))

    async def ask():
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
        ):
            answer = await client.post("/v1/act", json={"text": "x"}, headers={"Prefer": "wait=60"})
            return answer.json()["text"]

    assert asyncio.run(ask()) == "x"


@pytest.mark.parametrize("start", [create_app, serve, serve_in_background])
def test_without_the_extra_one_sentence_says_what_to_install(start, settings, monkeypatch):
    """The base install has the command line and the library, and says so of the rest."""
    for name in ("app", "serving"):
        monkeypatch.delitem(sys.modules, f"alloc.server.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    with pytest.raises(BackendUnavailableError, match=r'pip install "\.\[server\]"'):
        start(settings)


def test_the_command_line_says_it_too(monkeypatch, tmp_path):
    for name in ("app", "serving"):
        monkeypatch.delitem(sys.modules, f"alloc.server.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    database = str(tmp_path / "x.sqlite")
    ended = CliRunner().invoke(program, ["serve", "--database", database])
    assert ended.exit_code == 2
    assert 'pip install ".[server]"' in ended.stderr


def test_a_server_open_to_others_needs_tokens_before_anything_else(tmp_path):
    database = str(tmp_path / "x.sqlite")
    ended = CliRunner().invoke(program, ["serve", "--host", "0.0.0.0", "--database", database])
    assert ended.exit_code == 2
    assert "alloc serve tokens add NAME" in ended.stderr


@pytest.mark.parametrize("module", ["no_such_module", "json"])
def test_operations_that_cannot_be_loaded_are_one_sentence(settings, module):
    """And nothing stays open behind the error."""
    wrong = settings.replace(operations=(module,))
    for _ in range(2):
        with pytest.raises(InstanceError, match=f'operations of "{module}" cannot be loaded'):
            serve_in_background(wrong)


@pytest.mark.long
def test_a_script_without_a_guard_opens_one_server(tmp_path):
    """Workers must not run the program again, as processes of Python's are wont to."""
    script = tmp_path / "script.py"
    script.write_text(
        "from alloc.server import Settings, serve_in_background\n"
        "import httpx\n"
        "print('once')\n"
        "settings = Settings(port=0, database='x.sqlite', workers=2, preload=False)\n"
        "with serve_in_background(settings) as server:\n"
        "    print(httpx.get(server.address + '/health/ready').json()['status'])\n"
    )
    ended = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert ended.stdout.split() == ["once", "ok"], ended.stderr


def test_settings_need_no_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert Settings().is_loopback
    assert Settings(host="0.0.0.0").needs_tokens
    assert not Settings(host="::1").needs_tokens
    assert Settings(host="planner.example").needs_tokens
