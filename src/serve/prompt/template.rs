//! A chat template, rendered as Hugging Face's `apply_chat_template` renders it.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value, context};

use super::python_json::{self, Style};

/// A compiled template.
pub struct Template {
    environment: Environment<'static>,
    bos: String,
    eos: String,
    content_form: ContentForm,
}

/// In which form a template reads `content`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentForm {
    /// A string.
    Text,
    /// A list of parts, `{"type": "text", "text": …}`.
    Parts,
    /// Either of the two.
    Either,
}

/// Why a template yields no prompt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It called `raise_exception`: this conversation is not one for this model.
    #[error("{0}")]
    Refused(String),
    /// It does not compile, or does something that can't be done.
    #[error("the chat template failed: {0}")]
    Failed(String),
    /// It renders, but without the user's text.
    #[error("it leaves out what the user says")]
    Deaf,
}

/// The one template's name; without an ending nothing is escaped for HTML.
const NAME: &str = "chat";
/// Marks an error as the template's own refusal.
const REFUSAL: &str = "\u{1}refused: ";

impl Template {
    /// Compiles a template's text, and finds out in which form it reads `content`.
    ///
    /// # Errors
    /// When it does not compile.
    pub fn compile(text: &str, bos: &str, eos: &str) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        environment.set_syntax(syntax());
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_formatter(format_as_python);
        environment.add_filter("tojson", tojson);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment
            .add_template_owned(NAME, without_generation_blocks(text))
            .map_err(|error| TemplateError::Failed(error.to_string()))?;
        let mut template = Self {
            environment,
            bos: bos.to_owned(),
            eos: eos.to_owned(),
            content_form: ContentForm::Text,
        };
        let takes = [ContentForm::Text, ContentForm::Parts].map(|form| template.shows(form));
        template.content_form = match takes {
            [true, true] => ContentForm::Either,
            [false, true] => ContentForm::Parts,
            [_, false] => ContentForm::Text,
        };
        Ok(template)
    }

    /// In which form it reads `content`.
    pub fn content_form(&self) -> ContentForm {
        self.content_form
    }

    /// The text of a conversation, ready for the assistant's next message.
    ///
    /// # Errors
    /// When the template refuses the conversation or fails on it.
    pub fn render(&self, messages: &[Value]) -> Result<String, TemplateError> {
        let template = self.environment.get_template(NAME).map_err(|error| explain(&error))?;
        let context = context! {
            messages => messages.iter().cloned().collect::<Value>(),
            add_generation_prompt => true,
            bos_token => self.bos.as_str(),
            eos_token => self.eos.as_str(),
            tools => (),
            documents => (),
        };
        template.render(context).map_err(|error| explain(&error))
    }

    /// Whether a user's text in this form appears in the prompt.
    fn shows(&self, form: ContentForm) -> bool {
        const PROBE: &str = "a probe of the content's form";
        let content = match form {
            ContentForm::Parts => Value::from(vec![context! { type => "text", text => PROBE }]),
            ContentForm::Text | ContentForm::Either => Value::from(PROBE),
        };
        let message = context! { role => "user", content => content };
        // A list may also come out as it is, written down with its keys.
        let written_down = |text: &str| text.contains("'type'") || text.contains("\"type\"");
        self.render(&[message]).is_ok_and(|text| text.contains(PROBE) && !written_down(&text))
    }
}

/// Hugging Face's settings of Jinja.
fn syntax() -> SyntaxConfig {
    let built = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    built.expect("the delimiters are the default ones")
}

fn explain(error: &Error) -> TemplateError {
    let detail = error.detail().unwrap_or_default();
    match detail.strip_prefix(REFUSAL) {
        Some(message) => TemplateError::Refused(message.to_owned()),
        None => TemplateError::Failed(error.to_string()),
    }
}

/// Hugging Face's `{% generation %}` blocks mark text for training and render as they stand.
fn without_generation_blocks(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start..].find("%}") else { break };
        let (tag, after) = (&rest[start..start + length + 2], start + length + 2);
        let name = tag.trim_matches(['{', '}', '%', '-', '+']).trim();
        plain.push_str(&rest[..start]);
        match name {
            "generation" => plain.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => plain.push_str(&tag.replace("endgeneration", "endif")),
            _ => plain.push_str(tag),
        }
        rest = &rest[after..];
    }
    plain.push_str(rest);
    plain
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, format!("{REFUSAL}{message}")))
}

fn strftime_now(format: &str) -> Result<String, Error> {
    jiff::fmt::strtime::format(format, &jiff::ZonedDateTime::now())
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
}

/// Hugging Face's `tojson`: `json.dumps` without escapes for HTML or beyond ASCII, with its arguments
/// `ensure_ascii`, `indent`, `separators` and `sort_keys`, in this order or by name.
fn tojson(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let argument = |index: usize, name: &str| -> Result<Option<Value>, Error> {
        let named: Option<Value> = kwargs.get(name)?;
        let given = args.get(index).cloned().or(named);
        Ok(given.filter(|value| !value.is_none() && !value.is_undefined()))
    };
    let ensure_ascii = argument(0, "ensure_ascii")?.is_some_and(|flag| flag.is_true());
    let indent = argument(1, "indent")?.map(|indent| indentation(&indent)).transpose()?;
    let separators = argument(2, "separators")?;
    let sort_keys = argument(3, "sort_keys")?.is_some_and(|flag| flag.is_true());
    kwargs.assert_all_used()?;
    let mut style = Style { ensure_ascii, sort_keys, ..Style::indented(indent) };
    if let Some(separators) = separators {
        style.separators = pair(&separators)?;
    }
    Ok(Value::from(python_json::write(&python_json::to_json(value)?, &style)))
}

/// What Python indents a level with: a text, or a number of spaces.
fn indentation(indent: &Value) -> Result<String, Error> {
    /// No template indents more.
    const SPACES_MAX: i64 = 100;
    if let Some(text) = indent.as_str() {
        return Ok(text.to_owned());
    }
    let spaces = match indent.kind() {
        ValueKind::Bool => i64::from(indent.is_true()),
        _ => i64::try_from(indent.clone())?.clamp(0, SPACES_MAX),
    };
    Ok(" ".repeat(usize::try_from(spaces).expect("0 to 100")))
}

fn pair(separators: &Value) -> Result<(String, String), Error> {
    let texts: Vec<Value> = separators.try_iter()?.collect();
    match texts.as_slice() {
        [items, keys] => Ok((items.to_string(), keys.to_string())),
        _ => Err(Error::new(ErrorKind::InvalidOperation, "separators must be two texts")),
    }
}

/// Python writes `None`, `True` and `False`.
fn format_as_python(output: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::None => Ok(output.write_str("None")?),
        ValueKind::Bool => Ok(output.write_str(if value.is_true() { "True" } else { "False" })?),
        _ => minijinja::escape_formatter(output, state, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(template: &str, content: &str) -> Result<String, TemplateError> {
        let message = context! { role => "user", content => content };
        Template::compile(template, "<s>", "</s>")?.render(&[message])
    }

    #[test]
    fn blocks_take_their_lines_with_them() {
        let template = "{% for m in messages %}\n  {% if true %}\n[{{ m['content'] }}]\n  \
            {% endif %}\n{% endfor %}\n";
        assert_eq!(render(template, "x").unwrap(), "[x]\n");
    }

    #[test]
    fn python_methods_and_names_work() {
        let check = |template: &str, wanted: &str| {
            assert_eq!(render(template, " a-b ").unwrap(), wanted, "{template}");
        };
        check("{{ messages[0]['content'].strip().upper() }}", "A-B");
        check("{{ messages[0].content.split('-')[0].lstrip() }}", "a");
        check("{{ messages[0].get('name', 'nobody') }}", "nobody");
        check("{{ messages[0].content.startswith(' a') }}{{ none }}", "TrueNone");
        check("{{ bos_token }}{{ eos_token }}{{ tools is none }}", "<s></s>True");
        check("{{ messages | length }}{{ messages[-1].role }}", "1user");
        check("{{ {'a': [1, '<é>']} | tojson }}", r#"{"a": [1, "<é>"]}"#);
        check("{{ {'a': 1} | tojson(indent=2, ensure_ascii=False) }}", "{\n  \"a\": 1\n}");
        check("{{ {'b': 'é', 'a': 1} | tojson(sort_keys=true) }}", r#"{"a": 1, "b": "é"}"#);
        check("{{ ['é', '😀'] | tojson(ensure_ascii=True) }}", r#"["\u00e9", "\ud83d\ude00"]"#);
        check("{{ {'a': [1, 2]} | tojson(separators=(',', ':')) }}", r#"{"a":[1,2]}"#);
        check("{{ ['é'] | tojson(true, none, none, false) }}", r#"["\u00e9"]"#);
        check("{% generation %}x{% endgeneration %}", "x");
        check("{%- generation -%} x {%- endgeneration -%} y", "xy");
        check(
            "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = 2 %}{% break %}\
            {% endfor %}{{ ns.n }}",
            "2",
        );
        let year = jiff::ZonedDateTime::now().year().to_string();
        check("{{ strftime_now('%Y') }}", &year);
    }

    #[test]
    fn a_refusal_is_told_apart_from_a_failure() {
        let refused = render("{{ raise_exception('roles must alternate') }}", "x");
        assert_eq!(refused, Err(TemplateError::Refused("roles must alternate".to_owned())));
        let failed = render("{{ messages[0].nobody.there }}", "x");
        assert!(matches!(failed, Err(TemplateError::Failed(_))), "{failed:?}");
    }

    #[test]
    fn the_form_of_the_content_is_found_out() {
        let form = |text| Template::compile(text, "", "").unwrap().content_form();
        assert_eq!(form("{{ messages[0].content }}"), ContentForm::Text);
        assert_eq!(
            form("{% for part in messages[0].content %}{{ part.text }}{% endfor %}"),
            ContentForm::Parts
        );
        let both = "{% if messages[0].content is string %}{{ messages[0].content }}{% else %}\
            {{ messages[0].content[0].text }}{% endif %}";
        assert_eq!(form(both), ContentForm::Either);
        assert_eq!(form("{{ '<' + messages[0].content + '>' }}"), ContentForm::Text);
        assert_eq!(form("{{ messages[0].content | tojson }}"), ContentForm::Text);
    }
}
