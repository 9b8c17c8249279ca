//! The two servers of a cluster.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::extension::SessionConfigExt as _;
use ballista_core::utils::default_session_builder;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionConfig;

use super::scratch::Scratch;
use super::stages::Stages;
use super::{MESSAGE, SILENT, reached};
use crate::{Error, out, stores};

/// Seconds without a sign of life after which an executor is lost and its work is done again by
/// others.
const LOST_AFTER: u64 = 20;

/// A scheduler's address.
#[derive(Clone, Copy, Debug)]
pub struct Scheduler {
    /// Where it listens.
    pub listen: SocketAddr,
}

/// An executor's addresses and means.
#[derive(Clone, Debug)]
pub struct Executor {
    /// The scheduler, `HOST:PORT`.
    pub scheduler: String,
    /// Where it listens for those that fetch results; the next port is for the scheduler.
    pub listen: SocketAddr,
    /// The name or address by which others reach it; `None` for that of `listen`.
    pub advertise: Option<String>,
    /// Tasks at a time; `None` for one a CPU.
    pub tasks: Option<usize>,
    /// Memory for all tasks, in bytes.
    pub memory: u64,
    /// Where it keeps what stages hand on.
    pub directory: Option<PathBuf>,
    /// Seconds for which the scheduler is waited for.
    pub wait: u16,
}

fn served() -> SessionConfig {
    SessionConfig::new_with_ballista().with_ballista_override_create_grpc_client_endpoint(reached(SILENT))
}

/// Schedules queries until it is ended.
///
/// # Errors
/// [`Error::Cluster`] where it cannot listen.
pub async fn scheduler(of: Scheduler) -> Result<(), Error> {
    let message = u32::try_from(MESSAGE).unwrap_or(u32::MAX);
    let config = SchedulerConfig {
        bind_host: of.listen.ip().to_string(),
        bind_port: of.listen.port(),
        external_host: of.listen.ip().to_string(),
        scheduling_policy: TaskSchedulingPolicy::PullStaged,
        executor_timeout_seconds: LOST_AFTER,
        expire_dead_executor_interval_seconds: 2,
        no_executors_grace_period_seconds: LOST_AFTER,
        grpc_server_max_decoding_message_size: message,
        grpc_server_max_encoding_message_size: message,
        grpc_client_max_message_size: message,
        override_config_producer: Some(Arc::new(served)),
        override_session_builder: Some(Arc::new(|config| {
            let state = default_session_builder(config)?;
            let runtime =
                RuntimeEnvBuilder::new().with_object_store_registry(Arc::new(stores::Stores::default())).build_arc()?;
            Ok(SessionStateBuilder::new_from_existing(state).with_runtime_env(runtime).build())
        })),
        ..SchedulerConfig::default()
    };
    let failed = |e: &dyn std::fmt::Display| Error::Cluster(format!("scheduler on {}: {e}", of.listen));
    let cluster = BallistaCluster::new_from_config(&config).await.map_err(|e| failed(&e))?;
    out::note(&format!("scheduler on {}", of.listen));
    start_server(cluster, of.listen, Arc::new(config)).await.map_err(|e| failed(&e))
}

/// Works on queries until it is ended.
///
/// # Errors
/// [`Error::Wrong`] for an address that is none, [`Error::Cluster`] where the scheduler is not
/// there in time or it cannot listen.
pub async fn executor(of: Executor) -> Result<(), Error> {
    let wrong = || Error::Wrong(format!("{}: write the scheduler's address as HOST:PORT", of.scheduler));
    let (host, port) = of.scheduler.rsplit_once(':').ok_or_else(wrong)?;
    let scheduler_port = port.parse().map_err(|_| wrong())?;
    let scratch = if of.directory.is_none() { Some(Scratch::new(&std::env::temp_dir())?) } else { None };
    let own = scratch.as_ref().map(|scratch| scratch.path().to_owned());
    let directory = of.directory.clone().or(own).unwrap_or_default();
    let message = u32::try_from(MESSAGE).unwrap_or(u32::MAX);
    let spill = directory.clone();
    let config = ExecutorProcessConfig {
        bind_host: of.listen.ip().to_string(),
        external_host: Some(of.advertise.clone().unwrap_or_else(|| of.listen.ip().to_string())),
        port: of.listen.port(),
        grpc_port: of
            .listen
            .port()
            .checked_add(1)
            .ok_or_else(|| Error::Wrong("the port after --listen is used too".into()))?,
        scheduler_host: host.to_owned(),
        scheduler_port,
        scheduler_connect_timeout_seconds: of.wait.max(1),
        vcores: of.tasks.unwrap_or(0),
        task_scheduling_policy: TaskSchedulingPolicy::PullStaged,
        work_dir: Some(directory.to_string_lossy().into_owned()),
        job_data_ttl_seconds: 3600,
        job_data_clean_up_interval_seconds: 600,
        grpc_max_decoding_message_size: message,
        grpc_max_encoding_message_size: message,
        executor_heartbeat_interval_seconds: 5,
        memory_pool_size: Some(of.memory),
        override_execution_engine: Some(Arc::new(Stages::new(&of.scheduler)?)),
        override_config_producer: Some(Arc::new(served)),
        override_runtime_producer: Some(Arc::new(move |_| {
            RuntimeEnvBuilder::new()
                .with_temp_file_path(spill.clone())
                .with_object_store_registry(Arc::new(stores::Stores::default()))
                .build_arc()
        })),
        ..ExecutorProcessConfig::default()
    };
    out::note(&format!("executor on {}, for the scheduler {}", of.listen, of.scheduler));
    let ended = start_executor_process(Arc::new(config)).await;
    drop(scratch);
    ended.map_err(|e| Error::Cluster(format!("executor on {}: {e}", of.listen)))
}
