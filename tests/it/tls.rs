//! TLS of the timed path: verified, stamped, and a class of its own when it fails.

use std::time::Duration;

use spark::bench::client::{BodyTemplate, Endpoint};
use spark::bench::load::LevelSpec;
use spark::measure::trace::FailureClass;

use crate::level::{one_of, run};
use crate::support::scripted::{ScriptedServer, Step, good_answer};
use crate::support::tls::{TlsServer, Validity};

fn endpoint(url: &str) -> Endpoint {
    Endpoint::new(url, BodyTemplate::new("m", 16)).unwrap()
}

#[test]
fn a_certificate_of_a_custom_authority_is_trusted_and_the_handshake_is_stamped() {
    let folder = tempfile::tempdir().unwrap();
    let server = TlsServer::start(
        folder.path(),
        "localhost",
        Validity::Now,
        vec![vec![Step::Send(good_answer(3))]],
    );
    let endpoint = endpoint(&server.url()).trust(&server.pem).unwrap();
    let run = run(&endpoint, &LevelSpec { warmup: 0, ..LevelSpec::closed(1, 3) });
    for (index, trace) in run.traces.iter().enumerate() {
        assert!(trace.outcome.is_ok(), "{:?}", trace.outcome);
        assert_eq!(trace.tokens.n_out, Some(3));
        assert!(!trace.connection.stale);
        // The level opens its connection before the first request: no handshake is inside it.
        assert!(trace.connection.reused, "{index}");
        assert_eq!(trace.stamps.tls, None);
    }
}

#[test]
fn what_cannot_be_verified_is_a_tls_failure() {
    let folder = tempfile::tempdir().unwrap();
    let failure = |name: &str, validity: Validity, trusted: bool| {
        let server =
            TlsServer::start(folder.path(), name, validity, vec![vec![Step::Send(good_answer(3))]]);
        let mut endpoint = endpoint(&server.url());
        if trusted {
            endpoint = endpoint.trust(&server.pem).unwrap();
        }
        one_of(&endpoint).outcome.failure()
    };
    assert_eq!(failure("localhost", Validity::Now, false), Some(FailureClass::Tls), "unknown");
    assert_eq!(failure("localhost", Validity::Past, true), Some(FailureClass::Tls), "expired");
    assert_eq!(failure("other.test", Validity::Now, true), Some(FailureClass::Tls), "wrong host");
}

#[test]
fn a_peer_that_speaks_no_tls_or_says_nothing_is_a_tls_failure() {
    let server = ScriptedServer::start(vec![vec![Step::Hang]]);
    let url = server.url().replace("http://", "https://");
    let mut silent = endpoint(&url);
    // TCP is there at once; TLS never is.
    silent.timeouts.connect = Some(Duration::from_secs(10));
    let trace = one_of(&silent);
    assert_eq!(trace.outcome.failure(), Some(FailureClass::Tls), "{:?}", trace.outcome);
    assert!(trace.stamps.connected.is_some(), "TCP stood");
    assert_eq!(trace.stamps.tls, None);
}

#[test]
fn a_file_without_certificates_is_refused_before_anything_is_sent() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = endpoint("https://localhost/v1").trust(file.path()).unwrap_err().to_string();
    assert!(error.contains("it holds none"), "{error}");
    assert!(endpoint("https://localhost/v1").trust("/nonexistent.pem".as_ref()).is_err());
}
