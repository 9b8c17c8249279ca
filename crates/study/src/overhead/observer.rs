//! What observes the connection during a slice, and leaves it alone between slices.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use machine::programs;
use record::Nanos;
use trace::baselines::{Baseline, Loaded};
use trace::{Config, Tracer};
use traffic::{pin_this_thread, thread_cpu_time};

use super::processes::cpu_time;
use crate::Error;

/// Something that can be put on the connection and taken off again, loaded once.
pub(super) trait Observer {
    /// Puts it on. What this costs is not measured.
    fn begin(&mut self) -> Result<(), Error>;
    /// Takes it off, without a trace of it left on the connection.
    fn end(&mut self) -> Result<(), Error>;
    /// Has it read what it has recorded until now. The CPU time that its readers have had in all:
    /// none where it has no reader.
    fn take(&mut self) -> Result<Nanos, Error> {
        Ok(Nanos::ZERO)
    }
}

/// No observer.
pub(super) struct Nobody;

impl Observer for Nobody {
    fn begin(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

pub(super) fn traced(error: trace::Error) -> Error {
    Error::System { step: "trace", source: std::io::Error::other(error) }
}

impl Observer for Loaded {
    fn begin(&mut self) -> Result<(), Error> {
        self.attach().map_err(traced)
    }

    fn end(&mut self) -> Result<(), Error> {
        self.detach().map_err(traced)
    }
}

/// Loads a baseline for the connection with this port.
pub(super) fn baseline(baseline: Baseline, port: u16) -> Result<Box<dyn Observer>, Error> {
    Ok(Box::new(Loaded::load(baseline, port).map_err(traced)?))
}

enum Order {
    Resume,
    Take,
    Suspend,
}

/// What became of an order: the CPU time that the thread has had until then.
type Done = Result<Nanos, trace::Error>;

/// A tracer in a separate thread, which also takes what it records, as the command would.
pub(super) struct Watching {
    orders: Option<mpsc::Sender<Order>>,
    done: mpsc::Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

impl Watching {
    /// Starts it on that CPU and suspends it.
    pub fn start(config: Config, cpu: usize) -> Result<Box<dyn Observer>, Error> {
        let (orders, taken) = mpsc::channel();
        let (tell, done) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("tracer".into())
            .spawn(move || {
                // Where it cannot be bound, the kernel chooses: noisier, not wrong.
                let _ = pin_this_thread(cpu);
                let tracer = Tracer::start(&config).and_then(|mut tracer| {
                    tracer.suspend(&mut |_| {})?;
                    Ok(tracer)
                });
                match tracer {
                    Ok(tracer) => {
                        if tell.send(Ok(thread_cpu_time())).is_ok() {
                            watch(tracer, &taken, &tell);
                        }
                    }
                    // Whoever asked has gone where this cannot be sent.
                    Err(error) => drop(tell.send(Err(error))),
                }
            })
            .map_err(|source| Error::System { step: "start a thread", source })?;
        let watching = Self { orders: Some(orders), done, thread: Some(thread) };
        watching.answer()?;
        Ok(Box::new(watching))
    }

    fn answer(&self) -> Result<Nanos, Error> {
        match self.done.recv() {
            Ok(done) => done.map_err(traced),
            Err(_) => Err(Error::System { step: "trace", source: std::io::Error::other("the tracer's thread ended") }),
        }
    }

    fn order(&self, order: Order) -> Result<Nanos, Error> {
        // A thread that has ended shows in the missing answer.
        let _ = self.orders.as_ref().map(|orders| orders.send(order));
        self.answer()
    }
}

fn watch(mut tracer: Tracer, taken: &mpsc::Receiver<Order>, tell: &mpsc::Sender<Done>) {
    let mut sink = |event| drop(std::hint::black_box(event));
    let mut at_work = false;
    loop {
        // An order is heard while it sleeps too, so that a slice ends when it should.
        let order = match at_work {
            true => match taken.recv_timeout(tracer.pause()) {
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                order => order.ok(),
            },
            false => match taken.recv() {
                Err(_) => return,
                order => order.ok(),
            },
        };
        let done = match order {
            Some(Order::Resume) => tracer.resume(),
            Some(Order::Suspend) => tracer.suspend(&mut sink),
            Some(Order::Take) => tracer.poll(Duration::ZERO, &mut sink),
            None => match tracer.poll(Duration::ZERO, &mut sink) {
                Ok(()) => continue,
                failed => failed,
            },
        };
        at_work = !matches!(order, Some(Order::Suspend));
        if tell.send(done.map(|()| thread_cpu_time())).is_err() {
            return;
        }
    }
}

impl Observer for Watching {
    fn begin(&mut self) -> Result<(), Error> {
        self.order(Order::Resume).map(drop)
    }

    fn end(&mut self) -> Result<(), Error> {
        self.order(Order::Suspend).map(drop)
    }

    fn take(&mut self) -> Result<Nanos, Error> {
        self.order(Order::Take)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        drop(self.orders.take());
        // A thread that panicked has ended as well.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// tcpdump, which writes every packet of loopback away.
pub(super) struct Tcpdump {
    cpu: usize,
    running: Option<Child>,
}

impl Tcpdump {
    /// Finds out whether it is there.
    pub fn find(cpu: usize) -> Result<Box<dyn Observer>, Error> {
        let told = program("tcpdump")
            .and_then(|mut tcpdump| tcpdump.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status());
        told.map_err(|source| Error::System { step: "run tcpdump", source })?;
        Ok(Box::new(Self { cpu, running: None }))
    }
}

/// A program that is found where this process may take programs from.
fn program(name: &str) -> std::io::Result<Command> {
    let file = programs::find(name).ok_or(std::io::ErrorKind::NotFound)?;
    Ok(programs::command(&file))
}

impl Observer for Tcpdump {
    fn begin(&mut self) -> Result<(), Error> {
        let step = |source| Error::System { step: "run tcpdump", source };
        let cpu = self.cpu.to_string();
        let mut child = program("taskset")
            .map_err(step)?
            .args(["-c", &cpu, "tcpdump", "-i", "lo", "-n", "--immediate-mode", "-w", "/dev/null"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(step)?;
        let said = child.stderr.take();
        self.running = Some(child);
        // It says that it listens once its socket is there, or why not, and ends. No clock decides:
        // in a guest that counts instructions, an idle wait for the disk may be any time.
        let (mut text, mut byte) = (Vec::new(), [0u8]);
        let mut said = said.ok_or_else(|| step(std::io::ErrorKind::BrokenPipe.into()))?;
        while said.read(&mut byte).map_err(step)? == 1 {
            text.push(byte[0]);
            if byte[0] == b'\n' && text.windows(12).any(|w| w == b"listening on") {
                return Ok(());
            }
        }
        Err(step(std::io::Error::other(String::from_utf8_lossy(&text).trim().to_owned())))
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(mut child) = self.running.take() else { return Ok(()) };
        child.kill().and_then(|()| child.wait()).map_err(|source| Error::System { step: "end tcpdump", source })?;
        Ok(())
    }

    /// It reads by itself, at once (`--immediate-mode`).
    fn take(&mut self) -> Result<Nanos, Error> {
        let pid = self.running.as_ref().map(|child| child.id().cast_signed());
        Ok(pid.and_then(cpu_time).map_or(Nanos::ZERO, Nanos))
    }
}

impl Drop for Tcpdump {
    fn drop(&mut self) {
        // It is gone already where this fails.
        let _ = self.end();
    }
}
