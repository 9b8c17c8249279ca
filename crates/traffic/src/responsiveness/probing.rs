//! Foreign probes: a connection each, made and asked for one byte.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clock::{Instant, Monotonic};

use super::connection::Connection;
use super::discovery::runtime;
use super::endpoint::Endpoint;
use super::shared::Shared;
use super::{Load, Probe, ProbeKind};
use crate::error::Error;
use crate::server::lock::lock;
use crate::timing;

/// The longest answer to a probe, bytes: the draft's is of one.
pub(super) const SMALL: usize = 4 << 10;
/// Probes of each kind under way at the same time, at most.
pub(super) const UNDER_WAY: usize = 512;

/// What foreign probes without load saw.
pub(super) struct Idle {
    pub probes: Vec<Probe>,
    pub tls_version: Option<String>,
}

/// Foreign probes one after the other, before the load.
pub(super) fn idle(to: &Endpoint, count: usize, start: Instant<Monotonic>) -> Result<Idle, Error> {
    runtime()?.block_on(async {
        let mut idle = Idle { probes: Vec::new(), tls_version: None };
        for _ in 0..count {
            let at = timing::now().saturating_since(start);
            let mut connection = Connection::open(to).await?;
            idle.tls_version = connection.version.map(|version| format!("{version:?}"));
            let began = timing::now();
            let failed = |why| Error::Http { url: to.small.to_string(), why };
            connection.get(to, &to.small, SMALL).await.map_err(failed)?;
            let http = Some(timing::now().saturating_since(began));
            let (tcp, tls) = (Some(connection.tcp), Some(connection.tls));
            idle.probes.push(Probe { kind: ProbeKind::Foreign, load: None, at, tcp, tls, http });
        }
        Ok(idle)
    })
}

/// Foreign probes at the pace that the stage sets, until it stops.
pub(super) fn foreign(to: &Endpoint, load: Load, start: Instant<Monotonic>, shared: &Arc<Shared>) -> Result<(), Error> {
    let tasks = tokio::task::LocalSet::new();
    let runtime = runtime()?;
    timing::without_timer_slack();
    tasks.block_on(&runtime, async {
        let under_way = Arc::new(Mutex::new(0usize));
        while !shared.stop.load(Ordering::Relaxed) {
            let pause = Duration::from_nanos(shared.pair_ns.load(Ordering::Relaxed));
            if *lock(&under_way) < UNDER_WAY {
                *lock(&under_way) += 1;
                let (to, shared, under_way) = (to.clone(), shared.clone(), under_way.clone());
                tokio::task::spawn_local(async move {
                    let at = timing::now().saturating_since(start);
                    let mut probe =
                        Probe { kind: ProbeKind::Foreign, load: Some(load), at, tcp: None, tls: None, http: None };
                    if let Ok(mut connection) = Connection::open(&to).await {
                        (probe.tcp, probe.tls) = (Some(connection.tcp), Some(connection.tls));
                        let began = timing::now();
                        if connection.get(&to, &to.small, SMALL).await.is_ok() {
                            probe.http = Some(timing::now().saturating_since(began));
                        }
                    }
                    // What the end of the stage cut off is no failure.
                    if probe.http.is_some() || !shared.stop.load(Ordering::Relaxed) {
                        lock(&shared.probes).push(probe);
                    }
                    *lock(&under_way) -= 1;
                });
            }
            tokio::time::sleep(pause).await;
        }
    });
    // Probes under way end with their runtime.
    Ok(())
}
