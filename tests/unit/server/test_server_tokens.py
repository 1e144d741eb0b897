"""Tokens: who may ask, and what is kept of a token."""

import json
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from server_harness import act
from typer.testing import CliRunner

from alloc.cli.application import app
from alloc.errors import InstanceError
from alloc.server import Settings
from alloc.server.serving import require_safe
from alloc.server.tables import open_database
from alloc.server.tokens import add_token, list_tokens, revoke_token


@pytest.fixture
def engine(settings):
    engine = open_database(settings.database)
    yield engine
    engine.dispose()


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_commands_that_open_a_new_database_together_make_the_tables_once(tmp_path):
    """A server and a command for tokens, started at once: one failed, "table already exists"."""
    for k in range(10):
        path = str(tmp_path / f"{k}.sqlite")
        with ThreadPoolExecutor(4) as threads:
            engines = list(threads.map(open_database, [path] * 4))
        add_token(engines[0], "team")
        assert [info.name for info in list_tokens(engines[1])] == ["team"]
        for engine in engines:
            engine.dispose()


def test_only_a_hash_is_kept(engine, settings):
    """Whoever reads the database or a copy of it cannot use what is in it."""
    token = add_token(engine, "team")
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    folder = Path(settings.database).parent
    assert token.startswith("alloc_")
    assert len(token) > 40
    for file in folder.iterdir():
        assert token.encode() not in file.read_bytes()
    assert add_token(engine, "other") != token


def test_a_name_is_used_once(engine):
    """Jobs belong to names: another client of the same name would see them."""
    add_token(engine, "team")
    revoke_token(engine, "team")
    with pytest.raises(InstanceError, match='there is or was a token "team"'):
        add_token(engine, "team")
    with pytest.raises(InstanceError, match="is revoked already"):
        revoke_token(engine, "team")
    with pytest.raises(InstanceError, match='did you mean "team"'):
        revoke_token(engine, "taem")
    for name in ("", "local", "a b", "x" * 65, "../x"):
        with pytest.raises(InstanceError, match="choose another"):
            add_token(engine, name)
    with pytest.raises(InstanceError, match="weight"):
        add_token(engine, "light", weight=0.0)


def test_a_server_for_tokens_asks_for_one(open_client, settings, engine):
    """Everything but health; a wrong token never passes, not even on loopback."""
    good, gone = add_token(engine, "good"), add_token(engine, "gone")
    revoke_token(engine, "gone")
    client = open_client(settings.replace(require_tokens=True))
    assert client.get("/health/live").status_code == 200
    for path in ("/v1/jobs", "/metrics", "/v1/operations", "/v1/instances"):
        refused = client.get(path)
        assert refused.status_code == 401
        assert refused.json()["type"] == "urn:alloc:problem:unauthorized"
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert client.get(path, headers=bearer(good)).status_code == 200
    for wrong in (gone, good[:-1], good + "x", good.upper()):
        assert client.get("/v1/jobs", headers=bearer(wrong)).status_code == 401
    for header in (good, f"Basic {good}", "Bearer"):
        assert client.get("/v1/jobs", headers={"Authorization": header}).status_code == 401


def test_a_wrong_token_is_refused_on_loopback_too(shared):
    """Whoever sends a token means to be somebody; to be taken for another would be a surprise."""
    assert shared.get("/v1/jobs", headers=bearer("alloc_wrong")).status_code == 401


def test_a_new_token_is_good_at_once(open_client, settings, engine):
    add_token(engine, "early")
    client = open_client(settings.replace(require_tokens=True))
    token = add_token(engine, "late")
    assert client.get("/v1/jobs", headers=bearer(token)).status_code == 200


def test_a_revoked_token_is_refused_soon(open_client, settings, engine):
    token = add_token(engine, "team")
    client = open_client(settings.replace(require_tokens=True, lease_s=0.5))
    assert client.get("/v1/jobs", headers=bearer(token)).status_code == 200
    revoke_token(engine, "team")
    end = time.monotonic() + 300
    while client.get("/v1/jobs", headers=bearer(token)).status_code != 401:
        assert time.monotonic() < end, "the token is still good"


def test_nobody_sees_the_jobs_of_others(open_client, settings, engine):
    """Not even that there are any; and keys of idempotency are everyone's own."""
    mine, others = bearer(add_token(engine, "mine")), bearer(add_token(engine, "others"))
    client = open_client(settings.replace(require_tokens=True))
    key = {"Idempotency-Key": "the-same"}
    first = act(client, wait=30, headers={**mine, **key}, text="mine")
    second = act(client, wait=30, headers={**others, **key}, text="theirs")
    assert (first.json()["text"], second.json()["text"]) == ("mine", "theirs")
    location = first.headers["location"]
    for part in ("", "/result", "/request", "/events"):
        assert client.get(location + part, headers=others).status_code == 404
    assert client.post(f"{location}/cancel", headers=others).status_code == 404
    listed = client.get("/v1/jobs", headers=others).json()["jobs"]
    assert [job["client"] for job in listed] == ["others"]


def test_a_server_is_not_open_to_others_without_tokens(settings, engine):
    """Neither by mistake nor on purpose."""
    abroad = settings.replace(host="0.0.0.0")
    with pytest.raises(InstanceError, match="alloc serve tokens add"):
        require_safe(abroad)
    with pytest.raises(InstanceError, match="require_tokens is off"):
        require_safe(abroad.replace(require_tokens=False))
    with pytest.raises(InstanceError, match="needs tokens"):
        require_safe(settings.replace(allowed_hosts=("planner.example",)))
    require_safe(settings)
    add_token(engine, "team")
    require_safe(abroad)


def test_behind_a_proxy_the_servers_name_is_known(open_client, settings, engine):
    token = add_token(engine, "team")
    client = open_client(settings.replace(allowed_hosts=("planner.example",)))
    headers = {**bearer(token), "Host": "planner.example"}
    assert client.get("/v1/jobs", headers=headers).status_code == 200
    assert client.get("/v1/jobs", headers={"Host": "planner.example"}).status_code == 401


def test_tokens_are_kept_from_the_command_line(settings):
    runner = CliRunner()
    database = ("--database", settings.database)

    def run(*arguments):
        return runner.invoke(app, ["serve", "tokens", *arguments], env={"COLUMNS": "200"})

    added = run("add", "team", "--weight", "2", *database)
    assert added.exit_code == 0
    token = added.stdout.strip()
    assert token.startswith("alloc_")
    assert "cannot be shown again" in added.stderr
    assert run("add", "team", *database).exit_code == 2
    (row,) = json.loads(run("list", "--json", *database).stdout)
    assert (row["name"], row["weight"], row["revoked"]) == ("team", 2.0, None)
    assert run("revoke", "team", *database).exit_code == 0
    listed = run("list", *database).stdout
    assert "team" in listed
    assert token not in listed
    assert run("revoke", "team", *database).exit_code == 2


def test_a_database_of_another_version_is_refused(settings, engine):
    """Its tables may mean something else; guessing would damage them."""
    engine.dispose()
    with sqlite3.connect(settings.database) as connection:
        connection.execute("UPDATE alloc_server_meta SET value = '99'")
    connection.close()
    with pytest.raises(Exception, match="version 99 of the server's tables"):
        open_database(settings.database)


def test_what_is_wrong_with_a_database_is_said_without_its_password(tmp_path):
    from alloc.server.tables import DatabaseError

    with pytest.raises(DatabaseError, match="cannot open") as caught:
        open_database("postgresql+psycopg://me:hush@127.0.0.1:1/none")
    assert "hush" not in str(caught.value)
    with pytest.raises(DatabaseError, match="driver is installed"):
        open_database("nonsense://me:hush@host/none")
    (tmp_path / "text.sqlite").write_text("no database at all, but a text of some length" * 50)
    with pytest.raises(DatabaseError, match="not a database"):
        open_database(str(tmp_path / "text.sqlite"))
    with pytest.raises(DatabaseError, match="in memory"):
        open_database("sqlite://")


def test_settings_come_from_the_environment_and_options_go_first():
    environment = {
        "ALLOC_PORT": "81",
        "ALLOC_WORKERS": "3",
        "ALLOC_JOB_LIMIT_S": "7.5",
        "ALLOC_ALLOWED_HOSTS": "a.example, b.example",
        "ALLOC_REQUIRE_TOKENS": "yes",
        "ALLOC_HOST": "",
    }
    found = Settings.from_environment(environment, workers=4, host=None)
    assert (found.port, found.workers, found.job_limit_s) == (81, 4, 7.5)
    assert found.allowed_hosts == ("a.example", "b.example")
    assert found.require_tokens is True
    assert found.host == "127.0.0.1"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("PORT", "many", "give a whole number"),
        ("PORT", "70000", "from 0 to 65535"),
        ("JOB_LIMIT_S", "soon", "give a number"),
        ("WORKERS", "0", "more than 0"),
        ("REQUIRE_TOKENS", "perhaps", "give true or false"),
        ("LOG_LEVEL", "loud", "known: debug"),
        ("DRAIN_S", "-1", "0 or more"),
    ],
)
def test_a_setting_that_is_wrong_is_one_sentence(name, value, words):
    with pytest.raises(InstanceError, match=words):
        Settings.from_environment({f"ALLOC_{name}": value})
