//! `wirelapse-query`: SQL over runs.

mod manual;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::builder::Styles;
use clap::{CommandFactory as _, Parser as _};
use query::arguments::{Cli, Command, Query, Server};
use query::drawn::{Asked, Look};
use query::out::{self, Busy, complain};
use query::output::{Output, Wanted};
use query::prompt::{Entered, Prompt};
use query::weeks::Ask;
use query::{Error, Format, NAMED, Options, Place, Session, confined, threads};
use tokio::runtime::RuntimeFlavor;

/// What is said while a query runs.
const WORKING: &str = "working on the query";
/// How often the progress of a query is read.
const TICK: Duration = Duration::from_millis(250);

fn main() -> ExitCode {
    tame_panics();
    let cli = parsed();
    if let Err(error) = confined::keep(&cli) {
        complain(&error.to_string());
        return ExitCode::FAILURE;
    }
    let Ok(runtime) = threads::runtime() else {
        complain(threads::NONE);
        return ExitCode::FAILURE;
    };
    let done = runtime.block_on(async {
        match cli.command {
            Some(Command::Man) => manual::print().map_err(Error::Output),
            Some(Command::Server(server)) => serve(server).await,
            Some(Command::Weeks(ask)) => tokio::select! {
                done = weeks(&ask) => done,
                _ = tokio::signal::ctrl_c() => Err(Error::Cancelled),
            },
            None => tokio::select! {
                done = run(&cli.query) => done,
                _ = tokio::signal::ctrl_c(), if !cli.query.prompts() => Err(Error::Cancelled),
            },
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    code(done)
}

fn code(done: Result<(), Error>) -> ExitCode {
    let Err(error) = done else { return ExitCode::SUCCESS };
    if error.is_reader_gone() {
        return ExitCode::SUCCESS;
    }
    complain(&error.to_string());
    match error {
        Error::Cancelled => ExitCode::from(130),
        error if error.is_wrong_use() => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    }
}

/// Panics in words of others steer no terminal. One for which no thread could be made is no defect,
/// and ends the program with the reason.
fn tame_panics() {
    let plain = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let message = info.to_string();
        if threads::none_left(&message) {
            complain(threads::NONE);
            std::process::exit(1);
        }
        if out::steers(&message) {
            out::note(&message);
        } else {
            plain(info);
        }
    }));
}

/// The command line; where it is wrong, this ends the process with clap's message. Where its words
/// steer a terminal the message is in no colours, so that all that steers in it is foreign and can
/// be replaced.
fn parsed() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| {
        let steers = |word: std::ffi::OsString| out::steers(&word.to_string_lossy());
        if !std::env::args_os().any(steers) {
            error.exit();
        }
        match Cli::command().styles(Styles::plain()).try_get_matches() {
            Ok(_) => error.exit(),
            Err(plain) => {
                out::note(plain.render().ansi().to_string().trim_end());
                std::process::exit(plain.exit_code())
            }
        }
    })
}

#[cfg(feature = "cluster")]
async fn serve(server: Server) -> Result<(), Error> {
    use query::cluster::{Executor, Scheduler, executor, scheduler};
    match server {
        Server::Scheduler { listen } => tokio::select! {
            done = scheduler(Scheduler { listen }) => done,
            () = ended() => Ok(()),
        },
        Server::Executor { scheduler, listen, advertise, tasks, memory, directory, wait } => {
            executor(Executor {
                scheduler,
                listen,
                advertise,
                tasks: tasks.map(usize::from),
                memory,
                directory,
                wait: u16::try_from(wait.0.div_ceil(1_000_000_000)).unwrap_or(u16::MAX),
            })
            .await
        }
    }
}

#[cfg(feature = "cluster")]
async fn ended() {
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}

#[cfg(not(feature = "cluster"))]
async fn serve(_: Server) -> Result<(), Error> {
    Err(Error::Wrong("this build is without clusters: build it with the feature `cluster`".into()))
}

async fn run(query: &Query) -> Result<(), Error> {
    let sql = match &query.named {
        Some(name) => Some(named(name)?),
        None => query.sql.clone(),
    };
    if query.format == Format::Parquet && out::is_read() {
        return Err(Error::Wrong(
            "--format parquet writes bytes, which a terminal cannot show: redirect them to a file (> FILE)".into(),
        ));
    }
    if query.plot && query.format != Format::Table {
        return Err(Error::Wrong("--plot draws on the terminal or with --html: use it without --format".into()));
    }
    if query.html.is_some() && query.prompts() {
        return Err(Error::Wrong("--html needs a query: give it as SQL, or with --named".into()));
    }
    query.html.as_deref().map_or(Ok(()), |path| files::refuse(path, query.force))?;
    let busy = busy("reading what runs there are");
    let session = Session::open(Place::new(&query.runs)?, options(query)).await;
    busy.finish();
    let session = session?;
    let done = match sql {
        Some(sql) => one(&session, query, &sql).await,
        None if query.list => say(&query::list(&session)),
        None => match &query.schema {
            Some(table) => say(&query::schema(&session, table.as_deref()).await?),
            None => prompt(&session, query).await,
        },
    };
    left_out(&session);
    done
}

/// Writes rows for another program.
async fn weeks(ask: &Ask) -> Result<(), Error> {
    let session = Session::open(Place::new(&ask.runs)?, Options::default()).await?;
    if let Some((name, table)) = ask.of_runs() {
        session.of_runs(name, table, ask.period_us()).await?;
    }
    for (name, sql) in ask.steps() {
        session.keep(name, &sql).await?;
    }
    let mut output = Output::on_stdout(Wanted::Json);
    let schema = session.each(&ask.sql(), |batch| output.push(batch)).await;
    let done = schema.and_then(|schema| output.finish(&schema));
    left_out(&session);
    done.map(drop)
}

fn options(query: &Query) -> Options {
    Options {
        memory: query.memory,
        partitions: query.partitions.map(usize::from),
        scheduler: query.scheduler.clone(),
        wait: Duration::from_nanos(query.wait.0),
        fresh: query.fresh,
    }
}

fn named(name: &str) -> Result<String, Error> {
    query::named(name).map(|named| named.sql.to_owned()).ok_or_else(|| {
        let names: Vec<&str> = NAMED.iter().map(|named| named.name).collect();
        Error::Wrong(format!("there is no query named {name}: there are {}", names.join(", ")))
    })
}

fn say(text: &str) -> Result<(), Error> {
    out::say(text).map_err(Error::Output)
}

/// Whether the engine has the thread of `main` alone, under a limit on threads.
fn alone() -> bool {
    tokio::runtime::Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread
}

/// A sign of life on a terminal. It moves by a thread, which is needed elsewhere where there are
/// few.
fn busy(what: &'static str) -> Busy {
    Busy::new(what, !alone())
}

/// Shows how far a query is while it is worked on.
async fn shown<T>(session: &Session, bar: &Busy, worked_on: impl Future<Output = T>) -> T {
    let mut worked_on = std::pin::pin!(worked_on);
    let mut pause = TICK;
    loop {
        tokio::select! {
            done = &mut worked_on => return done,
            () = tokio::time::sleep(pause), if bar.is_shown() => {
                // The engine counts by part: with very many parts, looking takes long.
                let looked = Instant::now();
                if let Some(progress) = session.progress() {
                    bar.say(&format!("{WORKING}: {progress}"));
                }
                pause = TICK.max(looked.elapsed() * 50);
            },
        }
    }
}

/// Answers one query, on standard output or as a page.
async fn one(session: &Session, query: &Query, sql: &str) -> Result<(), Error> {
    if query.explain {
        return say(&session.explain(sql).await?);
    }
    let look = if query.plot { Look::Bars } else { Look::Table };
    if let Some(path) = &query.html {
        let title = query.named.clone().unwrap_or_else(|| "Answer to a query".into());
        let asked = Asked { title, sql: sql.trim().to_owned(), runs: query.runs.clone() };
        let mut page = Vec::new();
        answer(session, sql, Output::new(&mut page, Wanted::Page(look, asked)), true).await?;
        return Ok(files::write(path, &page, query.force, files::Readers::Owner)?);
    }
    let wanted = match query.format {
        _ if query.csv => Wanted::Csv,
        Format::Table => Wanted::Text(look, out::width()),
        Format::Json => Wanted::Json,
        Format::Csv => Wanted::Csv,
        Format::Parquet => Wanted::Parquet,
    };
    let at_the_end = matches!(wanted, Wanted::Text(..));
    answer(session, sql, Output::on_stdout(wanted), at_the_end).await
}

/// Writes the answer. Progress is shown until the first rows, or until the end where nothing is
/// written before.
async fn answer<W: std::io::Write + Send>(
    session: &Session,
    sql: &str,
    mut output: Output<W>,
    at_the_end: bool,
) -> Result<(), Error> {
    let bar = busy(WORKING);
    let answered = session.each(sql, |batch| {
        if !at_the_end {
            bar.finish();
        }
        output.push(batch)
    });
    let schema = shown(session, &bar, answered).await;
    bar.finish();
    output.finish(&schema?)?;
    Ok(())
}

async fn prompt(session: &Session, query: &Query) -> Result<(), Error> {
    let runs = session.fleet().runs().await?.all.len();
    if std::io::stdin().is_terminal() {
        out::note(&format!("{runs} runs. A query ends with a semicolon; \\list, \\schema TABLE, \\quit"));
    }
    let mut prompt = Prompt::new(session.names())?;
    loop {
        // With one thread alone nothing else waits for it.
        let entered = if alone() { prompt.entered()? } else { tokio::task::block_in_place(|| prompt.entered())? };
        let done = match entered {
            Entered::End => return Ok(()),
            Entered::Nothing => Ok(()),
            Entered::Help => say("\\list    tables, views, named queries\n\\schema TABLE    its columns\n\\quit\n"),
            Entered::List => say(&query::list(session)),
            Entered::Schema(table) => match query::schema(session, table.as_deref()).await {
                Ok(text) => say(&text),
                Err(error) => Err(error),
            },
            Entered::Query(sql) => tokio::select! {
                done = one(session, query, &sql) => done,
                _ = tokio::signal::ctrl_c() => Err(Error::Cancelled),
            },
        };
        match done {
            Ok(()) => left_out(session),
            Err(error @ (Error::Output(_) | Error::Io(_))) => return Err(error),
            Err(error) => complain(&error.to_string()),
        }
    }
}

/// Names what was skipped, and counts it.
fn left_out(session: &Session) {
    let left_out = session.fleet().left_out();
    for (what, why) in left_out.iter().take(10) {
        complain(&format!("skipped {what}: {why}"));
    }
    if left_out.len() > 10 {
        complain(&format!("skipped {} more, {} in all", left_out.len() - 10, left_out.len()));
    }
}
