#!/usr/bin/env python3
"""bench/duck.py ROOT SQL: a query of DuckDB on the runs below ROOT, with the tables and views that wirelapse-query has.

A name of a named query stands for its SQL. The times are those of the example `fleet`, where every host has one clock.
"""

import json
import os
import re
import sys

import duckdb

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../crates/query/src")
# Columns that runs of the example do not have.
MISSING = (("peer_port", "BIGINT"), ("local_port", "BIGINT"), ("container", "VARCHAR"), ("pod", "VARCHAR"), ("program", "VARCHAR"))


def unrecorded():
    """The counters of what has no record, as the source of the records names them."""
    text = open(os.path.join(SOURCE, "../../record/src/lost.rs")).read()
    said = text[text.index("pub fn unrecorded_sends") : text.index("pub fn unrecorded(")]
    return re.findall(r"\(self\.(\w+), ", said)


def sql_of(file):
    """What the program has, as its source says it: names, and the SQL of each."""
    text = open(os.path.join(SOURCE, file)).read()
    longer = {name: body for name, body in re.findall(r'const (\w+): &str = "\\\n(.*?)";', text, re.S)}
    found = {}
    for name, constant, body in re.findall(r'name: "([\w-]+)",.*?sql: (?:(\w+)|"((?:[^"\\]|\\.)*)"),', text, re.S):
        found[name] = (longer[constant] if constant else body.removeprefix("\\\n")).replace("\\\n", " ")
    return found


VIEWS, NAMED = sql_of("views.rs"), sql_of("named.rs")


def needed(sql):
    """The SQL of the views that a query is made of, in the order in which they can be made."""
    found = {}
    for name, body in VIEWS.items():
        if re.search(rf"\b{name}\b", sql):
            found |= needed(body) | {name: body}
    return found


def opened(root, sql):
    """A connection with the tables and views that a query needs."""
    db = duckdb.connect()
    db.sql("SET TimeZone = 'UTC'")
    db.sql("SET memory_limit = '4GB'")
    views = needed(sql)
    text = " ".join([sql, *views.values()])
    names = lambda table: re.search(rf"\b{table}\b", text)
    about = f"read_json('{root}/host=*/date=*/run=*/run.json', union_by_name=true, filename=true, columns={{schema: 'BIGINT', state: 'VARCHAR', start_ns: 'BIGINT', end_ns: 'BIGINT', clock: 'JSON', lost: 'JSON', coverage: 'JSON'}})"
    parts = lambda table: f"read_parquet('{root}/host=*/date=*/run=*/{table}.parquet/*.parquet', hive_partitioning=true, hive_types_autocast=false)"
    if names("runs"):
        missed = " + ".join(f"(lost->>'{counter}')::BIGINT" for counter in unrecorded())
        db.sql(f"""CREATE VIEW runs AS SELECT *, CASE WHEN bytes_written > 0 THEN bytes_armed / bytes_written::DOUBLE END AS covered FROM (
            SELECT regexp_extract(filename, 'host=([^/]*)', 1) AS host, regexp_extract(filename, 'run=([^/]*)', 1) AS run,
            make_timestamp((start_ns + (clock->>'realtime_offset_ns')::BIGINT) // 1000) AS time, state, end_ns - start_ns AS duration_ns,
            (coverage->>'followed_ns')::BIGINT AS followed_ns, (coverage->>'armed_ns')::BIGINT AS armed_ns, (coverage->>'bytes_written')::BIGINT AS bytes_written,
            (coverage->>'bytes_armed')::BIGINT AS bytes_armed, {missed} AS missed FROM {about})""")
    moments = {"sends": "at_ns", "connections": "since_ns", "totals": None, "requests": "coalesce(sent_at_ns, arrived_at_ns, written_at_ns, read_at_ns)",
               "packets": "coalesce(sched_at_ns, driver_at_ns, dropped_at_ns, ack_at_ns)", "datagrams": "coalesce(send_at_ns, sched_at_ns, driver_at_ns)"}
    for table, moment in moments.items():
        if names(table):
            time = f"make_timestamp((({moment} + {offset(root)}) // 1000)::BIGINT)" if moment else "NULL::TIMESTAMP"
            db.sql(f"CREATE VIEW {table} AS SELECT {time} AS time, * FROM {parts(table)}")
    if names("histograms") or names("hours"):
        missing = ", ".join(f"NULL::{kind} AS {name}" for name, kind in MISSING)
        db.sql(f"CREATE VIEW histograms AS SELECT *, {missing} FROM {parts('histograms')}")
        db.sql("""CREATE VIEW hours AS SELECT host, run, date_trunc('hour', time) AS time, peer, unit, stage, bucket, sum(count) AS count, sum(sum_ns) AS sum_ns
            FROM histograms GROUP BY ALL""")
    for name, body in views.items():
        db.sql(f"CREATE VIEW {name} AS {body}")
    return db


def offset(root):
    """What to add to CLOCK_MONOTONIC of the example's hosts, which all have the same."""
    for directory, _, files in os.walk(root):
        if "run.json" in files:
            with open(os.path.join(directory, "run.json")) as about:
                return json.load(about)["clock"]["realtime_offset_ns"]
    sys.exit(f"{root}: no runs")


if __name__ == "__main__":
    root, sql = sys.argv[1:3]
    sql = NAMED.get(sql, sql)
    for row in opened(root, sql).sql(sql).fetchall():
        print(row)
