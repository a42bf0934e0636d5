//! Which runs of a page did the same work, and what may not be compared where they did not.
//!
//! Work is what was asked for: weights, prompts, lengths, temperature, the kind of load. Runs of the
//! same work are one group, drawn in one kind of line. Another machine is no other work: it may be
//! the question; it is named all the same, and so are answers that came out longer or shorter.

use super::differences::{self, Bearing};
use super::html::{escape, shortened};
use super::svg::{COLOURS, DASHES, Style};
use super::views::Run;
use crate::results::brief::BriefLevel;
use crate::results::place::told_apart;
use crate::results::record::Meta;

/// Kinds of work, machines and answers that are named one by one; more are counted.
const NAMED_MAX: usize = 8;
/// Longest value that a sentence quotes.
const VALUE_CHARS_MAX: usize = 80;

/// The groups of a page's runs.
pub struct Works<'a> {
    runs: &'a [Run<'a>],
    /// The group of each run.
    of_run: Vec<usize>,
    /// The first run of each group.
    firsts: Vec<usize>,
    /// What differs between groups, and which figures depend on it.
    differing: Vec<(&'static str, Bearing)>,
    /// Where the server of each run was, where that is not one place for all.
    places: Vec<Option<String>>,
}

impl<'a> Works<'a> {
    /// Groups the runs: each joins the first group whose first run did the same work.
    pub fn of(runs: &'a [Run<'a>]) -> Self {
        let (mut of_run, mut firsts) = (Vec::new(), Vec::<usize>::new());
        let mut differing: Vec<(&'static str, Bearing)> = Vec::new();
        for (place, run) in runs.iter().enumerate() {
            if run.stored.file.levels.is_empty() {
                of_run.push(0); // Nothing is drawn of it.
                continue;
            }
            let asked_of =
                |first: &usize| differences::of_work(&runs[*first].stored.file, &run.stored.file);
            let group = firsts.iter().position(|first| asked_of(first).is_empty());
            of_run.push(group.unwrap_or(firsts.len()));
            if group.is_some() {
                continue;
            }
            for difference in firsts.first().map(asked_of).unwrap_or_default() {
                match differing.iter_mut().find(|(what, _)| *what == difference.what) {
                    Some((_, bearing)) => *bearing = difference.bearing.max(*bearing),
                    None => differing.push((difference.what, difference.bearing)),
                }
            }
            firsts.push(place);
        }
        Self { runs, of_run, firsts, differing, places: told_apart(runs.iter().map(measured)) }
    }

    /// How each run is drawn: a colour of its own, and the dashes of its group; no two runs alike as
    /// long as there are enough of both.
    pub fn styles(&self) -> Vec<Style> {
        let mut taken: Vec<Style> = Vec::new();
        for (place, group) in self.of_run.iter().enumerate() {
            let style = |step: usize| Style {
                colour: (place + step) % COLOURS,
                dash: (group + step / COLOURS) % DASHES,
            };
            let free = (0..COLOURS * DASHES).map(style).find(|style| !taken.contains(style));
            taken.push(free.unwrap_or(style(0)));
        }
        taken
    }

    /// What the legend calls each run: its name, and what it did or where, if others differ in that.
    pub fn names(&self) -> Vec<String> {
        let name = |(place, run): (usize, &Run)| {
            let mut name = run.name.clone();
            if self.firsts.len() > 1 && !run.stored.file.levels.is_empty() {
                let group = self.of_run[place];
                name.push_str(&format!(" [{}: {}]", letter(group), self.brief(group)));
            }
            if let Some(at) = &self.places[place] {
                name.push_str(&format!(" ({at})"));
            }
            name
        };
        self.runs.iter().enumerate().map(name).collect()
    }

    /// What a group did, as far as groups differ.
    fn brief(&self, group: usize) -> String {
        let parts: Vec<String> =
            self.differing.iter().map(|(what, _)| self.value(group, what)).collect();
        parts.join(", ")
    }

    fn value(&self, group: usize, what: &str) -> String {
        let run = &self.runs[self.firsts[group]];
        let meta = &run.stored.file.meta;
        let value = match what {
            "base_model" => meta.base_model.clone().unwrap_or_else(|| meta.model.clone()),
            "prompts" => self.prompts(meta),
            "max_tokens" => format!("{} output tokens", meta.max_tokens),
            "ignore_eos" if meta.ignore_eos => "length forced".into(),
            "ignore_eos" => "answers may end early".into(),
            "temperature" => meta
                .temperature
                .map_or("temperature not said".into(), |t| format!("temperature {t}")),
            "open_rate_per_s" => meta
                .open_rate_per_s
                .map_or("closed loop".into(), |rate| format!("{rate} requests/s")),
            "endpoint" => differences::endpoint(meta).unwrap_or_else(|| "endpoint not said".into()),
            _ => format!("{} starts", starts(&run.stored.file.levels)),
        };
        shortened(&value, VALUE_CHARS_MAX)
    }

    /// The prompts' file, with its hash where another one has the same name.
    fn prompts(&self, meta: &Meta) -> String {
        let name = |meta: &Meta| meta.prompts.rsplit('/').next().unwrap_or_default().to_owned();
        let of_group = |first: &usize| &self.runs[*first].stored.file.meta;
        let same_name = self.firsts.iter().map(of_group).filter(|other| name(other) == name(meta));
        let mut hashes: Vec<_> = same_name.map(|other| other.prompts_sha256.as_deref()).collect();
        hashes.dedup();
        match (&meta.prompts_sha256, hashes.len()) {
            (Some(sha256), 2..) => format!("{} (SHA-256 {sha256:.8}…)", name(meta)),
            _ => name(meta),
        }
    }

    /// What is to be known before two lines are compared; empty where nothing is.
    pub fn notice(&self) -> String {
        let (work, machines, lengths) = (self.of_work(), self.of_places(), self.of_answers());
        let said = work + &machines + &lengths;
        if said.is_empty() {
            return said;
        }
        format!("<div class=\"notice\" role=\"note\">{said}</div>")
    }

    fn of_work(&self) -> String {
        let groups = self.firsts.len();
        if groups < 2 {
            return String::new();
        }
        let item = |(what, bearing): &(&'static str, Bearing)| {
            let mut values: Vec<(String, Vec<String>)> = Vec::new();
            for group in 0..groups {
                let value = self.value(group, what);
                match values.iter_mut().find(|(known, _)| *known == value) {
                    Some((_, letters)) => letters.push(letter(group)),
                    None => values.push((value, vec![letter(group)])),
                }
            }
            let shown: Vec<String> = values
                .iter()
                .take(NAMED_MAX)
                .map(|(value, letters)| format!("{}: {value}", letters.join(", ")))
                .collect();
            format!(
                "<li>{} ({}{}). Not comparable between them: {}.</li>",
                what,
                escape(&shown.join("; ")),
                more(values.len()),
                bearing.plots()
            )
        };
        let items: String = self.differing.iter().map(item).collect();
        format!(
            "<p><b>These runs did {groups} different pieces of work</b>, {}: a line in other dashes \
             is no other speed. They differ in</p><ul>{items}</ul>",
            (0..groups.min(NAMED_MAX)).map(letter).collect::<Vec<_>>().join(", ") + &more(groups)
        )
    }

    fn of_places(&self) -> String {
        let mut places: Vec<(&str, Vec<&str>)> = Vec::new();
        for (run, place) in self.runs.iter().zip(&self.places) {
            let Some(place) = place else { continue };
            match places.iter_mut().find(|(known, _)| known == place) {
                Some((_, names)) => names.push(&run.name),
                None => places.push((place, vec![&run.name])),
            }
        }
        if places.is_empty() {
            return String::new();
        }
        let shown: Vec<String> = places
            .iter()
            .take(NAMED_MAX)
            .map(|(place, names)| format!("{}: {}", place, shortened(&names.join(", "), 200)))
            .collect();
        format!(
            "<p><b>The servers were not on one machine</b> ({}{}): between these, the figures are those \
             of machine and server together.</p>",
            escape(&shown.join("; ")),
            more(places.len())
        )
    }

    /// Answers that came out otherwise than those of the group's first run.
    fn of_answers(&self) -> String {
        let other = |(place, run): (usize, &Run)| {
            let first = &self.runs[*self.firsts.get(self.of_run[place])?];
            let found = differences::of_common_levels(&first.stored.file, &run.stored.file);
            let found = found.into_iter().find(|one| one.what == "answer length")?;
            let c = found.concurrency.unwrap_or_default();
            Some(format!(
                "{} {} tokens against {} of {} at c={c}",
                run.name, found.b, found.a, first.name
            ))
        };
        let found: Vec<String> = self.runs.iter().enumerate().filter_map(other).collect();
        if found.is_empty() {
            return String::new();
        }
        let shown = found.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join("; ");
        format!(
            "<p><b>Answers came out of other lengths</b> (means: {}{}). Not comparable between them: {}.</p>",
            escape(&shown),
            more(found.len()),
            Bearing::Durations.plots()
        )
    }
}

/// Of a run without levels nothing is drawn.
fn measured<'a>(run: &'a Run) -> Option<&'a Meta> {
    let file = &run.stored.file;
    (!file.levels.is_empty()).then_some(&file.meta)
}

/// "staggered", "staggered and simultaneous".
fn starts(levels: &[BriefLevel]) -> String {
    let mut modes: Vec<&str> = Vec::new();
    for level in levels.iter().filter(|level| level.summary.concurrency > 1) {
        let mode = level.summary.start_mode.as_str();
        if !mode.is_empty() && !modes.contains(&mode) {
            modes.push(mode);
        }
    }
    if modes.is_empty() { "unknown".into() } else { modes.join(" and ") }
}

/// "A", … "Z", then numbers.
fn letter(group: usize) -> String {
    let letter = u8::try_from(group).ok().filter(|group| *group < 26).map(|group| b'A' + group);
    letter.map_or_else(|| (group + 1).to_string(), |letter| char::from(letter).to_string())
}

/// " and 3 more".
fn more(count: usize) -> String {
    match count.saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::views::named;
    use crate::results::brief::BriefFile;
    use crate::results::record::{Host, ResultsFile, Summary};
    use crate::results::store::StoredRun;

    fn run(target: &str, change: impl FnOnce(&mut Meta)) -> StoredRun {
        let mut meta = Meta {
            target: target.into(),
            prompts: "prompts/short.jsonl".into(),
            prompts_sha256: Some("aaaaaaaaaaaa".into()),
            max_tokens: 32,
            temperature: Some(0.0),
            base_url: "http://127.0.0.1:8080/v1".into(),
            ..Meta::default()
        };
        change(&mut meta);
        let summary = Summary { concurrency: 1, n_ok: 9, ..Summary::default() };
        let level = BriefLevel { summary, ..BriefLevel::default() };
        let file = BriefFile { levels: vec![level], ..ResultsFile::new(meta).brief() };
        StoredRun { path: format!("{target}.json").into(), file }
    }

    fn on(hash: &str, cpu: &str) -> Option<Host> {
        Some(Host { hostname_hash: Some(hash.into()), cpu: Some(cpu.into()), ..Host::default() })
    }

    #[test]
    fn the_same_work_needs_no_word() {
        let runs = [run("a", |_| {}), run("b", |meta| meta.change = "another".into())];
        let runs = named(&runs, Vec::new());
        let works = Works::of(&runs);
        assert_eq!(works.notice(), "");
        assert_eq!(works.names(), ["a", "b"]);
        assert!(works.styles().iter().all(|style| style.dash == 0));
    }

    #[test]
    fn other_work_is_named_with_the_figures_that_depend_on_it() {
        let runs = [
            run("a", |_| {}),
            run("b", |meta| meta.max_tokens = 256),
            run("c", |meta| {
                meta.prompts = "prompts/long.jsonl".into();
                meta.prompts_sha256 = Some("bbbbbbbbbbbb".into());
            }),
            run("d", |meta| meta.max_tokens = 256),
        ];
        let runs = named(&runs, Vec::new());
        let works = Works::of(&runs);
        let notice = works.notice();
        for expected in [
            "3 different pieces of work",
            "A, C: 32 output tokens; B: 256 output tokens",
            "speed of one stream, and TTFT above c=1",
            "C: long.jsonl",
            "Not comparable between them: every figure",
        ] {
            assert!(notice.contains(expected), "{expected}: {notice}");
        }
        assert_eq!(works.names()[3], "d [B: 256 output tokens, short.jsonl]");
        let dashes: Vec<usize> = works.styles().iter().map(|style| style.dash).collect();
        assert_eq!(dashes, [0, 1, 2, 1]);
    }

    #[test]
    fn another_machine_is_named_and_is_no_other_work() {
        let runs = [
            run("a", |meta| meta.host = on("aa", "Xeon")),
            run("b", |meta| meta.host = on("bb", "Grace")),
            run("c", |meta| meta.base_url = "https://api.example.com/v1".into()),
            run("old", |_| {}),
        ];
        let runs = named(&runs, Vec::new());
        let works = Works::of(&runs);
        let notice = works.notice();
        assert!(notice.contains("on Xeon: a; on Grace: b; at api.example.com: c"), "{notice}");
        assert!(!notice.contains("pieces of work"), "{notice}");
        assert_eq!(works.names()[3], "old", "what is not said is not another place");
    }

    #[test]
    fn no_two_runs_are_drawn_alike() {
        let runs: Vec<StoredRun> =
            (0..20).map(|i| run("t", |meta| meta.max_tokens = i % 3)).collect();
        let runs = named(&runs, Vec::new());
        let styles = Works::of(&runs).styles();
        for (place, style) in styles.iter().enumerate() {
            assert!(!styles[..place].contains(style), "{place}: {style:?}");
        }
    }
}
