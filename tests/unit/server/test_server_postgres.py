"""The server on a real PostgreSQL: the same promises, and several servers on one database."""

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from server_harness import act, wait_for, wait_for_stored, wait_until_ready
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from alloc.server.store import Store
from alloc.server.tables import open_database
from alloc.server.tokens import add_token, good_tokens

_numbers = count()


@pytest.fixture
def database(postgres):
    """Return the URL of an empty database."""
    return postgres.new_database(f"alloc{next(_numbers)}")


def rows(database, query):
    engine = create_engine(database)
    with engine.connect() as connection:
        found = connection.execute(text(query)).all()
    engine.dispose()
    return found


def end_lease(database, job_id):
    """Let the lease of the server that has a job be over, as if time had passed."""
    engine = create_engine(database)
    query = (
        "UPDATE alloc_server_owners SET seen = 0 "
        "WHERE id = (SELECT owner FROM alloc_server_jobs WHERE id = :id)"
    )
    with engine.begin() as connection:
        assert connection.execute(text(query), {"id": job_id}).rowcount == 1
    engine.dispose()


@pytest.mark.long
def test_servers_that_start_together_make_the_tables_once(postgres):
    """One of several on a new database ended with "relation already exists"."""
    for _ in range(5):
        url = postgres.new_database(f"alloc{next(_numbers)}")
        with ThreadPoolExecutor(4) as threads:
            for engine in threads.map(open_database, [url] * 4):
                engine.dispose()
        assert rows(url, "SELECT value FROM alloc_server_meta") == [("1",)]


def test_the_life_of_a_job(open_client, settings, database, tiny):
    """Everything that touches the database, once."""
    client = open_client(settings.replace(database=database))
    request = {"instance": tiny, "formulation": "round"}
    headers = {"Prefer": "wait=30", "Idempotency-Key": "k"}
    solved = client.post("/v1/solve", json=request, headers=headers, params={"label": "Größe"})
    assert solved.status_code == 200
    again = client.post("/v1/solve", json=request, headers=headers)
    assert again.text == solved.text
    assert act(client, headers={"Idempotency-Key": "k"}).status_code == 422
    location = solved.headers["location"]
    assert client.get(f"{location}/request").json() == request
    failed = act(client, wait=30, act="refuse")
    assert failed.status_code == 422
    sleeping = act(client, act="hold").json()
    wait_for(client, sleeping["id"], states=("running",))
    assert client.post(sleeping["links"]["cancel"]).json()["state"] == "cancelled"
    listed = client.get("/v1/jobs", params={"limit": 2}).json()
    assert [job["state"] for job in listed["jobs"]] == ["cancelled", "failed"]
    rest = client.get("/v1/jobs", params={"cursor": listed["next_cursor"]}).json()["jobs"]
    assert [job["label"] for job in rest] == ["Größe"]
    assert client.get("/v1/jobs", params={"state": "done", "label": "Größe"}).json()["jobs"]


def test_results_expire_there_too(open_client, settings, database, monkeypatch):
    monkeypatch.setattr("alloc.server.keeper.EXPIRY_S", 0.1)
    client = open_client(settings.replace(database=database, result_ttl_s=0.2))
    location = act(client, wait=30).headers["location"]
    wait_for(client, location[-32:], states=("expired",))
    assert client.get(f"{location}/result").status_code == 410
    # It answers so at once; what is stored goes with the keeper's next round.
    while rows(database, "SELECT count(*) FROM alloc_server_results")[0][0]:
        time.sleep(0.02)


def test_tokens_are_kept_there_too(database):
    engine = open_database(database)
    token = add_token(engine, "team", 2.0)
    (client,) = good_tokens(engine).values()
    engine.dispose()
    assert (client.name, client.weight) == ("team", 2.0)
    (kept,) = rows(database, "SELECT hash FROM alloc_server_tokens")
    assert token not in kept[0]


@pytest.mark.long
def test_a_server_that_dies_is_replaced_by_another(server, database):
    """Two servers on one database: the jobs of one that is killed are the other's soon."""
    one = server(database=database, lease_s=1.5, workers=1)
    two = server(database=database, lease_s=1.5, workers=1)
    jobs = [act(one.client, act="hold", text=f"t{k}").json() for k in range(3)]
    wait_for(one.client, jobs[0]["id"], states=("running",))
    assert two.client.get(jobs[2]["links"]["self"]).json()["state"] == "queued"
    one.kill()
    one.let_go()
    for number, job in enumerate(jobs):
        assert wait_for(two.client, job["id"])["state"] == "done"
        assert two.client.get(job["links"]["result"]).json()["text"] == f"t{number}"
    assert rows(database, "SELECT count(*) FROM alloc_server_jobs")[0][0] == 3
    assert rows(database, "SELECT count(*) FROM alloc_server_results")[0][0] == 3


@pytest.mark.slow
def test_a_server_that_slept_stores_nothing_for_jobs_it_lost(server, database):
    """Stopped longer than its lease, it comes back and finds its job done by another."""
    # Long enough for a busy machine: nobody loses a lease but the one that sleeps.
    one = server(database=database, lease_s=20.0, workers=1)
    two = server(database=database, lease_s=20.0, workers=1)
    job = act(one.client, act="hold", text="once").json()
    wait_for_stored(database, job["id"], attempt=1)
    one.process.send_signal(signal.SIGSTOP)
    end_lease(database, job["id"])
    one.let_go()
    done = wait_for(two.client, job["id"])
    assert (done["state"], done["attempt"]) == ("done", 2)
    first = two.client.get(job["links"]["result"]).text
    one.process.send_signal(signal.SIGCONT)
    # Until it knows, a new job of its own may be the other's, too.
    while "the lease was lost" not in one.lines():
        time.sleep(0.05)
    while rows(database, "SELECT count(*) FROM alloc_server_owners")[0][0] < 2:
        time.sleep(0.05)
    assert act(one.client, wait=30).status_code == 200
    assert one.client.get(job["links"]["result"]).text == first
    assert rows(database, "SELECT count(*) FROM alloc_server_results")[0][0] == 2


@pytest.mark.slow
def test_any_server_can_cancel_and_show_the_jobs_of_another(server, database):
    """Behind a balancer nobody knows which server has a job."""
    one = server(database=database, lease_s=2.0, workers=1)
    two = server(database=database, lease_s=2.0, workers=1)
    job = act(one.client, act="hold").json()
    wait_for(two.client, job["id"], states=("running",))
    assert two.client.post(job["links"]["cancel"]).status_code == 200
    with two.client.stream("GET", job["links"]["events"]) as response:
        streamed = "".join(response.iter_text())
    assert '"state": "cancelled"' in streamed
    assert wait_for(one.client, job["id"])["state"] == "cancelled"


@pytest.mark.long
def test_the_server_outlives_a_restart_of_the_database(
    open_client, settings, postgres, database, tmp_path, monkeypatch
):
    """Requests get a problem that says to come again; a result waits until it can be stored."""
    plain, refused_once = Store.end, threading.Event()

    async def end(self, *arguments):
        try:
            return await plain(self, *arguments)
        except SQLAlchemyError:
            refused_once.set()
            raise

    monkeypatch.setattr(Store, "end", end)
    client = open_client(settings.replace(database=database, lease_s=600.0))
    job = act(client, act="hold", until=str(tmp_path / "go"), text="kept").json()
    wait_for(client, job["id"], states=("running",))
    postgres.stop()
    try:
        (tmp_path / "go").touch()
        assert refused_once.wait(300)
        refused = act(client)
        assert refused.status_code == 503
        assert refused.json()["type"] == "urn:alloc:problem:store-unavailable"
        assert client.get("/health/ready").status_code == 503
        assert client.get("/health/live").status_code == 200
    finally:
        postgres.start()
    wait_until_ready(client)
    assert wait_for(client, job["id"])["state"] == "done"
    assert client.get(job["links"]["result"]).json()["text"] == "kept"
    assert act(client, wait=30).status_code == 200


def test_a_database_out_of_reach_is_not_waited_for_for_minutes(database):
    """A cable that is pulled says nothing; without limits every request would hang on it."""

    def limits(url):
        engine = open_database(url)
        with engine.connect() as connection:
            found = connection.connection.driver_connection.info.get_parameters()
        engine.dispose()
        return found["connect_timeout"], found["tcp_user_timeout"]

    assert limits(database) == ("20", "20000")
    sign = "&" if "?" in database else "?"
    assert limits(f"{database}{sign}connect_timeout=7") == ("7", "20000")


def test_a_server_that_stops_in_the_middle_does_not_hold_up_the_others(database):
    """A process that sleeps inside a transaction keeps its locks, until the database ends it.

    Found with a server stopped just while it showed life: nobody could take over its jobs.
    """
    sleeping, other = open_database(database, 0.3), open_database(database, 0.3)
    with other.begin() as connection:
        connection.execute(text("INSERT INTO alloc_server_owners VALUES ('a', 0)"))
    connection = sleeping.connect()
    connection.execute(text("UPDATE alloc_server_owners SET seen = 1"))
    with other.begin() as waiting:
        waiting.execute(text("SET LOCAL lock_timeout = '20s'"))
        assert waiting.execute(text("DELETE FROM alloc_server_owners")).rowcount == 1
    with pytest.raises(DBAPIError, match="idle-in-transaction"):
        connection.execute(text("SELECT 1"))
    connection.invalidate()
    connection.close()
    sleeping.dispose()
    other.dispose()
