//! The tasks of an executor, which end with their query: an executor that asks for work does not
//! hear that a query was cancelled.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    GetJobStatusParams, RuntimeStatsReport, ShuffleWritePartition, TaskColumnStats, WindowStateReport, job_status,
};
use ballista_executor::execution_engine::{DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::prelude::SessionConfig;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};

use super::bound::{GoesOn, bind};
use super::{MESSAGE, SILENT};
use crate::Error;

/// What a task says that would make rows count twice. The scheduler hands on only the text of why a
/// query failed.
pub const BEGINS_AGAIN: &str = "begins again where an executor went away with its share";

/// How often a task checks whether its query goes on.
const TICK: Duration = Duration::from_secs(1);

/// Makes tasks that end with their query.
pub struct Stages {
    plain: DefaultExecutionEngine,
    scheduler: SchedulerGrpcClient<Channel>,
    /// Where the scheduler is asked: the threads of tasks may all be at work.
    beside: Handle,
}

impl Stages {
    /// Of an executor that works for this scheduler, `HOST:PORT`.
    ///
    /// # Errors
    /// [`Error::Wrong`] where it is no address.
    pub fn new(scheduler: &str) -> std::result::Result<Self, Error> {
        let endpoint = Endpoint::new(format!("http://{scheduler}"))
            .map_err(|e| Error::Wrong(format!("{scheduler}: is no address: {e}")))?
            .connect_timeout(TICK * 5)
            .timeout(TICK * 5);
        let scheduler = SchedulerGrpcClient::new(endpoint.connect_lazy()).max_decoding_message_size(MESSAGE);
        Ok(Self { plain: DefaultExecutionEngine::new(), scheduler, beside: Handle::current() })
    }
}

impl ExecutionEngine for Stages {
    fn create_query_stage_exec(
        &self,
        job_id: JobId,
        stage_id: usize,
        task_id: usize,
        global_output_partition_ids: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        work_dir: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        let job = job_id.to_string();
        let partitions = global_output_partition_ids;
        let (goes_on, over) = GoesOn::new();
        let plan = bind(plan, &over)?;
        let plain =
            self.plain.create_query_stage_exec(job_id, stage_id, task_id, partitions, plan, work_dir, config)?;
        let goes_on = Mutex::new(Some(goes_on));
        Ok(Arc::new(Stage { plain, job, scheduler: self.scheduler.clone(), beside: self.beside.clone(), goes_on }))
    }
}

#[derive(Debug)]
struct Stage {
    plain: Arc<dyn QueryStageExecutor>,
    job: String,
    scheduler: SchedulerGrpcClient<Channel>,
    beside: Handle,
    /// Until it is worked on.
    goes_on: Mutex<Option<GoesOn>>,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plain.fmt(f)
    }
}

#[async_trait]
impl QueryStageExecutor for Stage {
    async fn execute_query_stage(
        &self,
        task_id: usize,
        context: Arc<TaskContext>,
    ) -> Result<Vec<ShuffleWritePartition>> {
        if begins_again(context.task_id().as_deref()) {
            return Err(DataFusionError::Execution(format!("a stage of the query {} {BEGINS_AGAIN}", self.job)));
        }
        // However this ends, also where the executor gives it up.
        let _goes_on = self.goes_on.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut looking = JoinSet::new();
        looking.spawn_on(over(self.scheduler.clone(), self.job.clone()), &self.beside);
        tokio::select! {
            done = self.plain.execute_query_stage(task_id, context) => done,
            _ = looking.join_next() => Err(DataFusionError::Execution(format!("the query {} is over", self.job))),
        }
    }

    fn collect_plan_metrics(&self) -> Vec<MetricsSet> {
        self.plain.collect_plan_metrics()
    }

    fn collect_runtime_stats_reports(&self) -> Vec<RuntimeStatsReport> {
        self.plain.collect_runtime_stats_reports()
    }

    fn collect_window_state_reports(&self) -> Result<Vec<WindowStateReport>> {
        self.plain.collect_window_state_reports()
    }

    fn collect_column_stats(&self) -> Vec<TaskColumnStats> {
        self.plain.collect_column_stats()
    }
}

/// Whether a task is of a stage that is worked on for a second time, by the name that the executor
/// gives it: `TID JOB/STAGE.ATTEMPT/TASK.ATTEMPT`. Where a stage begins again, the scheduler keeps
/// what other executors had made of it and hands on both: rows would count twice.
fn begins_again(task: Option<&str>) -> bool {
    let attempt = || task?.split('/').nth_back(1)?.rsplit_once('.')?.1.parse::<u32>().ok();
    attempt().is_some_and(|attempt| attempt > 0)
}

/// Waits until a query is over: it has failed, was cancelled, or the scheduler does not know it. A
/// scheduler that does not answer is asked again, until it counts as gone with all of its queries.
async fn over(mut scheduler: SchedulerGrpcClient<Channel>, job: String) {
    let mut answered = Instant::now();
    while answered.elapsed() < SILENT {
        tokio::time::sleep(TICK).await;
        let Ok(answer) = scheduler.get_job_status(GetJobStatusParams { job_id: job.clone() }).await else { continue };
        answered = Instant::now();
        let status = answer.into_inner().status.and_then(|status| status.status);
        if !matches!(status, Some(job_status::Status::Queued(_) | job_status::Status::Running(_))) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::begins_again;

    #[test]
    fn a_stage_that_begins_again_is_known_by_its_tasks_names() {
        for (task, again) in
            [("TID 038GM197MR000/2.0/3.1", false), ("TID 038GM197MR000/2.1/0.0", true), ("other", false)]
        {
            assert_eq!(begins_again(Some(task)), again, "{task}");
        }
        assert!(!begins_again(None));
    }
}
