//! Who the rows of `hours` are of: pods of one owner are one service, in the report of a fleet and
//! in its map alike.

/// Who a row of `hours` is of: its unit, else what owns its pod, else the pod or container.
pub const SERVICE: &str = "coalesce(h.unit, o.owner, h.pod, h.container)";

/// What owns a pod, beside the rows of `hours`. The pods of an owner come and go; the rows of a
/// pod from before the agent was told of its owner are the owner's, too. A join holds its left side
/// in memory: the few owners.
pub const OWNED: &str = "owned o RIGHT JOIN hours h ON o.host = h.host AND o.namespace = h.namespace AND o.pod = h.pod";

/// The owners of pods, and the name that [`OWNED`] reads them by.
pub fn of(period: &str) -> (&'static str, String) {
    let sql = format!(
        "SELECT host, namespace, pod, max(concat(namespace, '/', owner)) AS owner FROM hours
         WHERE ({period}) AND namespace IS NOT NULL AND pod IS NOT NULL AND owner IS NOT NULL GROUP BY host, namespace, pod"
    );
    ("owned", sql)
}
