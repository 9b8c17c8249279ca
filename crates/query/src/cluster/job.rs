//! A query that a cluster runs: submitted, waited for, cancelled.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ballista_core::client::BallistaClient;
use ballista_core::extension::BallistaConfigGrpcEndpoint;
use ballista_core::serde::BallistaPhysicalExtensionCodec;
use ballista_core::serde::protobuf::execute_query_params::Query;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    CancelJobParams, ExecuteQueryParams, ExecuteQueryResult, GetJobStatusParams, KeyValuePair, PartitionLocation,
    execute_query_result, job_status,
};
use ballista_core::version::insert_version_header;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use datafusion::prelude::SessionContext;
use datafusion_proto::physical_plan::AsExecutionPlan as _;
use datafusion_proto::protobuf::PhysicalPlanNode;
use futures::{StreamExt as _, TryStreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use super::stages::BEGINS_AGAIN;
use super::{MESSAGE, reached};
use crate::Error;

/// How often the state of a job is asked for.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// A job of a scheduler. It is cancelled when it is dropped before its end, and so is one that is
/// being submitted.
pub struct Job {
    id: String,
    address: String,
    client: SchedulerGrpcClient<Channel>,
    schema: SchemaRef,
    over: Arc<AtomicBool>,
    wait: Duration,
}

impl Job {
    /// Waits for the scheduler and an executor, and submits a plan.
    ///
    /// # Errors
    /// [`Error::Cluster`].
    pub async fn submit(
        address: &str,
        plan: Arc<dyn ExecutionPlan>,
        context: &SessionContext,
        wait: Duration,
    ) -> Result<Self, Error> {
        ready(address, wait).await?;
        let failed =
            |what: &str, why: &dyn std::fmt::Display| Error::Cluster(format!("scheduler {address}: {what}: {why}"));
        let channel = Endpoint::new(format!("http://{address}"))
            .map_err(|e| failed("is no address", &e))?
            .connect_timeout(wait)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(10))
            .connect()
            .await
            .map_err(|e| failed("cannot be reached", &e))?;
        let client =
            SchedulerGrpcClient::new(channel).max_decoding_message_size(MESSAGE).max_encoding_message_size(MESSAGE);
        let schema = plan.schema();
        let codec = BallistaPhysicalExtensionCodec::default();
        let mut bytes = Vec::new();
        PhysicalPlanNode::try_from_physical_plan(plan, &codec)
            .and_then(|node| node.try_encode(&mut bytes))
            .map_err(|e| Error::Cluster(format!("this query cannot be divided: {}", e.strip_backtrace())))?;
        let settings = context.state().config_options().entries();
        let settings = settings.into_iter().map(|entry| KeyValuePair { key: entry.key, value: entry.value }).collect();
        let mut request = tonic::Request::new(ExecuteQueryParams {
            session_id: context.session_id(),
            settings,
            operation_id: format!("{}-{}", context.session_id(), std::process::id()),
            query: Some(Query::PhysicalPlan(bytes)),
        });
        insert_version_header(request.metadata_mut());
        let mut asking = Asking { answer: None, client: client.clone() };
        let answer = asking.answer.insert({
            let mut client = client.clone();
            tokio::spawn(async move { client.execute_query(request).await })
        });
        let answer = tokio::time::timeout(wait, answer)
            .await
            .map_err(|_| failed("does not answer", &format!("nothing in {} s", wait.as_secs())))?;
        asking.answer = None;
        let answer = answer
            .map_err(|ended| failed("cannot be asked", &ended))?
            .map_err(|status| failed("refuses the query", &status.message()))?;
        let id = match answer.into_inner().result {
            Some(execute_query_result::Result::Success(success)) => success.job_id,
            Some(execute_query_result::Result::Failure(failure)) => {
                return Err(failed("refuses the query", &format!("{failure:?}")));
            }
            None => return Err(failed("refuses the query", &"it gives no reason")),
        };
        Ok(Self { id, address: address.to_owned(), client, schema, over: Arc::default(), wait })
    }

    /// Waits until the cluster has worked on it, and gives the rows as they are fetched.
    ///
    /// # Errors
    /// [`Error::Cluster`], where it failed, or the scheduler went away; [`Error::ExecutorLost`].
    pub async fn rows(mut self) -> Result<(Self, SendableRecordBatchStream), Error> {
        let locations = loop {
            let asked = self.client.get_job_status(GetJobStatusParams { job_id: self.id.clone() });
            let status = tokio::time::timeout(self.wait, asked)
                .await
                .map_err(|_| self.failed(&format!("has not answered for {} s", self.wait.as_secs())))?
                .map_err(|status| {
                    self.failed(&format!("went away while it worked on the query: {}", status.message()))
                })?
                .into_inner()
                .status
                .and_then(|status| status.status);
            match status {
                Some(job_status::Status::Failed(failed)) => {
                    self.over.store(true, Ordering::Relaxed);
                    let why = format!("the query failed: {}", failed.error);
                    // A failed job has no field that says why but this text.
                    return Err(if failed.error.contains(BEGINS_AGAIN) { self.lost(&why) } else { self.failed(&why) });
                }
                Some(job_status::Status::Successful(done)) => break done.partition_location,
                _ => tokio::time::sleep(ASK_EVERY).await,
            }
        };
        self.over.store(true, Ordering::Relaxed);
        // Of an executor that went away and came back, and of the one that did its work again.
        let mut pieces = HashSet::new();
        let twice = |location: &PartitionLocation| {
            !pieces.insert(location.partition_id.as_ref().map(|piece| (piece.stage_id, piece.partition_id)))
        };
        if locations.iter().any(twice) {
            return Err(self.lost("an executor went away with its share of the result, and came back"));
        }
        let silent = self.wait;
        let rows = futures::stream::iter(locations).then(move |location| fetched(location, silent)).try_flatten();
        let rows = Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), rows));
        Ok((self, rows))
    }

    fn failed(&self, what: &str) -> Error {
        Error::Cluster(format!("scheduler {}: {what}", self.address))
    }

    fn lost(&self, what: &str) -> Error {
        Error::ExecutorLost(format!("scheduler {}: {what}", self.address))
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.over.load(Ordering::Relaxed) {
            before_the_end(cancelled(self.client.clone(), std::mem::take(&mut self.id)));
        }
    }
}

/// A query on its way to the scheduler. Where the answer is waited for no more, the job that it
/// names is cancelled.
struct Asking {
    /// `None` once it is here.
    answer: Option<JoinHandle<Result<Response<ExecuteQueryResult>, Status>>>,
    client: SchedulerGrpcClient<Channel>,
}

impl Drop for Asking {
    fn drop(&mut self) {
        let Some(answer) = self.answer.take() else { return };
        let client = self.client.clone();
        before_the_end(async move {
            if let Ok(Ok(answer)) = answer.await
                && let Some(execute_query_result::Result::Success(success)) = answer.into_inner().result
            {
                cancelled(client, success.job_id).await;
            }
        });
    }
}

/// Cancels a job until it is over: the scheduler takes no notice of that while it divides the plan
/// into stages.
async fn cancelled(mut client: SchedulerGrpcClient<Channel>, job_id: String) {
    while client.cancel_job(CancelJobParams { job_id: job_id.clone() }).await.is_ok() {
        tokio::time::sleep(ASK_EVERY).await;
        let status = client.get_job_status(GetJobStatusParams { job_id: job_id.clone() }).await;
        let status = status.ok().and_then(|answer| answer.into_inner().status).and_then(|status| status.status);
        if !matches!(status, Some(job_status::Status::Queued(_) | job_status::Status::Running(_))) {
            return;
        }
    }
}

/// The program may end now: this is done before, within some seconds.
fn before_the_end(work: impl Future<Output = ()> + Send + 'static) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let done = std::thread::Builder::new().spawn(move || {
        runtime.block_on(async {
            let _ = tokio::time::timeout(Duration::from_secs(5), work).await;
        });
    });
    // Without a thread the job ends by itself, later.
    let _ = done.map(std::thread::JoinHandle::join);
}

/// The rows of one piece of the result, from the executor that holds it and may be `silent` for so
/// long.
async fn fetched(location: PartitionLocation, silent: Duration) -> Result<SendableRecordBatchStream, DataFusionError> {
    let missing = || DataFusionError::Execution("the scheduler does not say where the result is".into());
    let layout = location.layout();
    let executor = location.executor_meta.ok_or_else(missing)?;
    let piece = location.partition_id.ok_or_else(missing)?;
    let port = u16::try_from(executor.port).map_err(|_| missing())?;
    let address = format!("{}:{port}", executor.host);
    let lost = move |e: &dyn std::fmt::Display| {
        Error::ExecutorLost(format!("executor {address} went away with its share of the result: ask again ({e})"))
            .within()
    };
    let endpoint = Some(Arc::new(BallistaConfigGrpcEndpoint::new(reached(silent))));
    let mut client = BallistaClient::try_new(&executor.host, port, MESSAGE, false, endpoint, 3, 500, 0, 0)
        .await
        .map_err(|e| lost(&e))?;
    let rows = client
        .fetch_partition_proxied(&executor.id, &piece.into(), location.file_id, layout, &executor.host, port, true)
        .await
        .map_err(|e| lost(&e))?;
    // It can go away in the midst of them.
    Ok(Box::pin(RecordBatchStreamAdapter::new(rows.schema(), rows.map_err(move |e| lost(&e)))))
}

/// Waits until the scheduler is there and says that it has an executor.
async fn ready(address: &str, wait: Duration) -> Result<(), Error> {
    let deadline = tokio::time::Instant::now() + wait;
    let mut last = None;
    while tokio::time::Instant::now() < deadline {
        match tokio::time::timeout_at(deadline, answers(address)).await {
            Ok(Ok(true)) => return Ok(()),
            Ok(Ok(false)) => {
                last = Some("has no executors: start `wirelapse-query executor` with its address".to_owned());
            }
            Ok(Err(why)) => last = Some(format!("cannot be reached: {why}: start `wirelapse-query scheduler`")),
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let last = last.unwrap_or_else(|| "does not answer".into());
    Err(Error::Cluster(format!("scheduler {address} {last} (waited {} s)", wait.as_secs_f64())))
}

/// Whether the scheduler has an executor, by its page for supervisors.
async fn answers(address: &str) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(address).await?;
    stream
        .write_all(format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())
        .await?;
    let mut answer = Vec::new();
    stream.take(4096).read_to_end(&mut answer).await?;
    Ok(answer.starts_with(b"HTTP/1.1 200"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballista_core::serde::protobuf::{ExecutorMetadata, PartitionId};

    #[test]
    fn an_executor_that_takes_connections_and_says_nothing_is_lost() {
        // The kernel takes connections for it, as for a process that is stopped.
        let stopped = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = u32::from(stopped.local_addr().unwrap().port());
        let location = PartitionLocation {
            partition_id: Some(PartitionId::default()),
            executor_meta: Some(ExecutorMetadata { host: "127.0.0.1".into(), port, ..ExecutorMetadata::default() }),
            ..PartitionLocation::default()
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let Err(failed) = runtime.block_on(fetched(location, Duration::from_millis(200))) else {
            panic!("it has no rows");
        };
        assert!(super::super::is_lost(&failed.into()), "it is not lost");
    }
}
