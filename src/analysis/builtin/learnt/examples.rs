//! Reads the examples that the table is trained from. Used by the training and by tests; the server has only the table.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// The begin of a header line: `== category tool exit-code source`, with `-` for what is not known.
const HEADER: &str = "== ";
/// The source of a text with alternatives in braces, which stands for several examples.
const TEMPLATE: &str = "template";
/// The source of a text that is written for the training.
const OWN: &str = "own";
/// Examples made of one template.
const VARIANTS_MAX: usize = 6;
/// The file of lines that mean nothing.
const ORDINARY: &str = "ordinary.txt";
/// Whatever the table depends on besides the data.
const CODE: [&str; 4] = [
    include_str!("features.rs"),
    include_str!("model.rs"),
    include_str!("examples.rs"),
    include_str!("../../../../examples/train-analysis.rs"),
];

/// A failure and its category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    pub category: String,
    pub tool: Option<String>,
    pub exit_code: Option<i32>,
    pub text: String,
    /// Examples of the same group resemble each other: of one tool, or else of one source.
    pub group: String,
}

#[derive(Debug, Default)]
pub struct Data {
    pub examples: Vec<Example>,
    /// Lines of every log.
    pub ordinary: Vec<String>,
}

/// The files of the data by name.
pub type Files = BTreeMap<String, String>;

pub fn read(folder: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.insert(name, std::fs::read_to_string(&path)?);
        }
    }
    Ok(files)
}

/// Of the data and of the code that makes a table from it.
pub fn stamp(files: &Files) -> u64 {
    let data = files.iter().flat_map(|(name, content)| [name.as_bytes(), content.as_bytes()]);
    super::model::stamp(data.chain(CODE.iter().map(|code| code.as_bytes())))
}

/// The error names file and line.
pub fn parse(files: &Files) -> Result<Data, String> {
    let mut data = Data::default();
    for (name, content) in files {
        if name == ORDINARY {
            data.ordinary.extend(content.lines().filter(|line| !line.is_empty()).map(str::to_owned));
            continue;
        }
        let mut open: Option<(usize, &str, Vec<&str>)> = None;
        for (number, line) in content.lines().enumerate() {
            if let Some(header) = line.strip_prefix(HEADER) {
                if let Some(block) = open.replace((number + 1, header, Vec::new())) {
                    add(&mut data, name, block)?;
                }
            } else if let Some((_, _, lines)) = &mut open {
                lines.push(line);
            }
        }
        if let Some(block) = open {
            add(&mut data, name, block)?;
        }
    }
    if data.ordinary.is_empty() { Err(format!("{ORDINARY} is missing or empty")) } else { Ok(data) }
}

fn add(data: &mut Data, file: &str, (number, header, lines): (usize, &str, Vec<&str>)) -> Result<(), String> {
    let wrong = |what: &str| format!("{file}:{number}: {what}");
    let [category, tool, code, source] = header.split_whitespace().collect::<Vec<_>>()[..] else {
        return Err(wrong("expected category, tool, exit code and source"));
    };
    let exit_code = match code {
        "-" => None,
        code => Some(code.parse().map_err(|_| wrong("the exit code is not a number"))?),
    };
    let text = lines.join("\n").trim_matches('\n').to_owned();
    if text.is_empty() {
        return Err(wrong("no text"));
    }
    let group = match (tool, source) {
        ("-", TEMPLATE | OWN) => format!("{file}:{number}"),
        ("-", source) => source.to_owned(),
        (tool, _) => tool.to_owned(),
    };
    let example = |text: String| Example {
        category: category.to_owned(),
        tool: (tool != "-").then(|| tool.to_owned()),
        exit_code,
        text,
        group: group.clone(),
    };
    let texts = if source == TEMPLATE { variants(&text) } else { vec![text] };
    data.examples.extend(texts.into_iter().map(example));
    Ok(())
}

/// `{one|other}` in turn by the first alternatives, by the second ones, and so on.
fn variants(template: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut count = 1;
    while texts.len() < count.min(VARIANTS_MAX) {
        let (mut text, mut rest) = (String::new(), template);
        while let Some((before, after)) = rest.split_once('{') {
            let Some((inner, after)) = after.split_once('}') else { break };
            let choices: Vec<&str> = inner.split('|').collect();
            text.push_str(before);
            if choices.len() == 1 {
                // Braces of the program itself.
                text.push_str(&format!("{{{inner}}}"));
            } else {
                count = count.max(choices.len());
                text.push_str(choices[texts.len() % choices.len()]);
            }
            rest = after;
        }
        text.push_str(rest);
        texts.push(text);
    }
    texts
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn parsed(content: &str) -> Result<Vec<Example>, String> {
        let files = [("a.txt", content), (ORDINARY, "hello\n")];
        let files = files.map(|(name, content)| (name.to_owned(), content.to_owned())).into();
        parse(&files).map(|data| data.examples)
    }

    #[test]
    fn examples_are_read_with_their_headers() {
        let read = parsed("# why\n\n== tls curl 60 https://x.example\nbad\n  certificate\n\n== lint - - template\na\n")
            .unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].tool.as_deref(), read[0].exit_code), (Some("curl"), Some(60)));
        assert_eq!((read[0].text.as_str(), read[0].group.as_str()), ("bad\n  certificate", "curl"));
        assert_eq!((read[1].tool.as_deref(), read[1].exit_code, read[1].group.as_str()), (None, None, "a.txt:7"));
    }

    #[test]
    fn a_template_stands_for_several_examples() {
        assert_eq!(variants("a {b|c|d} {e|f} {g}"), ["a b e {g}", "a c f {g}", "a d e {g}"]);
        assert_eq!(variants("plain {"), ["plain {"]);
        assert_eq!(variants("{1|2|3|4|5|6|7|8|9}").len(), VARIANTS_MAX);
    }

    #[test]
    fn broken_data_is_refused_with_its_place() {
        for (content, place) in
            [("== tls curl\nx\n", "a.txt:1"), ("\n== tls curl x y\nx\n", "a.txt:2"), ("== a b 1 c\n\n", "no text")]
        {
            assert!(parsed(content).unwrap_err().contains(place), "{content:?}");
        }
        assert!(parse(&Files::new()).unwrap_err().contains(ORDINARY));
    }
}
