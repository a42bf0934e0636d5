//! The columns of `requests.csv`.

use super::{Cell, Cells};
use crate::results::brief::BriefLevel;
use crate::results::record::{Meta, RequestRecord, ResultsFile};
use crate::results::store::StoredRun;

/// Their names.
pub(super) fn columns() -> Vec<String> {
    let run = StoredRun { path: "".into(), file: ResultsFile::new(Meta::default()).brief() };
    let level = BriefLevel::default();
    let cells = cells(&run, &level, &RequestRecord::default());
    cells.into_iter().map(|(name, _)| name).collect()
}

/// One row. Texts and gaps stay in the results file: a cell holds 32,767 characters at most.
pub(super) fn cells(run: &StoredRun, level: &BriefLevel, request: &RequestRecord) -> Cells {
    let meta = &run.file.meta;
    let r = request;
    let server = r.server.as_ref();
    let cells = [
        ("file", Cell::text(run.name())),
        ("date", Cell::text(&meta.date)),
        ("target", Cell::text(&meta.target)),
        ("concurrency", Cell::Count(Some(level.summary.concurrency.into()))),
        ("index", Cell::Count(Some(r.index.into()))),
        ("prompt_index", Cell::Count(Some(r.prompt_index.into()))),
        ("worker", Cell::Count(Some(r.worker.into()))),
        ("phase", Cell::text(&r.phase)),
        ("start_s", Cell::Float(Some(r.start_s))),
        ("lateness_s", Cell::Float(r.lateness_s)),
        ("ok", Cell::YesNo(Some(r.ok))),
        ("ttft_s", Cell::Float(r.ttft)),
        ("ttft_answer_s", Cell::Float(r.ttft_answer)),
        ("last_token_s", Cell::Float(r.last_token)),
        ("e2e_s", Cell::Float(r.e2e)),
        ("n_out", Cell::Count(r.n_out)),
        ("decode_tps", Cell::Float(r.decode_tps)),
        ("tpot_s", Cell::Float(r.tpot)),
        ("n_chunks", Cell::Count(Some(r.n_chunks))),
        ("max_gap_s", Cell::Float(r.max_gap)),
        ("error_class", Cell::Text(r.error_class.clone())),
        ("error", Cell::Text(r.error.clone())),
        ("http_status", Cell::Count(r.http_status.map(u64::from))),
        ("retry_after_s", Cell::Float(r.retry_after_s)),
        ("pause_s", Cell::Float(r.pause_s)),
        ("n_prompt", Cell::Count(r.n_prompt)),
        ("n_cached", Cell::Count(r.n_cached)),
        ("n_first", Cell::Count(r.n_first)),
        ("token_source", Cell::text(&r.token_source)),
        ("finish_reason", Cell::Text(r.finish_reason.clone())),
        ("model", Cell::Text(r.model.clone())),
        ("dns_s", Cell::Float(r.dns_s)),
        ("connect_s", Cell::Float(r.connect_s)),
        ("tls_s", Cell::Float(r.tls_s)),
        ("written_s", Cell::Float(r.written_s)),
        ("headers_s", Cell::Float(r.headers_s)),
        ("reused_connection", Cell::YesNo(Some(r.reused_connection))),
        ("stale_connection", Cell::YesNo(Some(r.stale_connection))),
        ("rtt_s", Cell::Float(r.rtt_s)),
        ("request_bytes", Cell::Count(Some(r.request_bytes))),
        ("server_queue_s", Cell::Float(server.and_then(|server| server.queue_s))),
        ("server_prefill_s", Cell::Float(server.and_then(|server| server.prefill_s))),
        ("server_decode_s", Cell::Float(server.and_then(|server| server.decode_s))),
        ("server_times_source", Cell::Text(server.map(|server| server.source.clone()))),
        ("parse_errors", Cell::Count(Some(r.parse_errors))),
        ("coalesced_reads", Cell::Count(Some(r.coalesced_reads))),
        ("stamp_source", Cell::text(&r.stamp_source)),
        ("text_sha256", Cell::Text(r.text_sha256.clone())),
        ("notes", Cell::text(r.notes.join("; "))),
    ];
    cells.into_iter().map(|(name, cell)| (name.to_owned(), cell)).collect()
}
