//! The modules of a source tree and the paths that each names, read from its tokens: comments, strings and line breaks
//! do not matter, and macro bodies are included. Code that exists only in tests is skipped.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A limit for chains of re-exports: a circle of them must not hang the test.
const MAX_HOPS: usize = 16;

/// A module's path from its crate on: `store::log`.
pub type ModulePath = Vec<String>;

/// The prefix of our crates' names, each of which is a folder of `src`.
const OUR_CRATES: &str = "lockkeeper_";

#[derive(Default)]
pub struct Sources {
    modules: BTreeMap<ModulePath, Module>,
}

#[derive(Default)]
struct Module {
    file: String,
    /// The names it defines.
    items: BTreeSet<String>,
    /// Names that a `use` imports, with their targets.
    imports: BTreeMap<String, Vec<String>>,
    /// The targets of `use …::*`.
    globs: Vec<Vec<String>>,
    /// Whether a private glob import of one of our modules hides where names come from.
    hides_names: bool,
    paths: Vec<Vec<String>>,
}

/// A path that a file names, absolute if it is one of ours.
pub struct Named<'a> {
    pub file: &'a str,
    pub path: Vec<String>,
    pub is_ours: bool,
}

impl Sources {
    /// Reads files, each by its path below `src` and its text.
    pub fn read<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut sources = Self::default();
        let mut only_in_tests = Vec::new();
        for (file, text) in files {
            let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{file}: {error}"));
            let path = module_of(file);
            let module = sources.modules.entry(path.clone()).or_default();
            file.clone_into(&mut module.file);
            let mut reader = Reader { sources: &mut sources, only_in_tests: &mut only_in_tests };
            reader.read(&path, file, tokens, true);
        }
        sources.modules.retain(|path, _| !only_in_tests.iter().any(|test| path.starts_with(test)));
        sources
    }

    pub fn named(&self) -> impl Iterator<Item = Named<'_>> {
        self.modules.iter().flat_map(move |(place, module)| {
            module.paths.iter().map(move |path| {
                let ours = self.absolute(place, path);
                let is_ours = ours.is_some();
                Named { file: &module.file, path: ours.unwrap_or_else(|| path.clone()), is_ours }
            })
        })
    }

    /// Every file with the files whose items it names, directly or through re-exports.
    pub fn uses(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut uses: BTreeMap<_, BTreeSet<_>> =
            self.modules.values().map(|module| (&*module.file, BTreeSet::new())).collect();
        if let Some(module) = self.modules.values().find(|module| module.hides_names) {
            panic!("{}: import names of ours, not `*`", module.file);
        }
        for named in self.named().filter(|named| named.is_ours) {
            if let Some(file) = self.file_of(&named.path)
                && file != named.file
            {
                uses.entry(named.file).or_default().insert(file);
            }
        }
        uses
    }

    /// The path relative to `src`, unless it belongs to another crate or a local name.
    fn absolute(&self, place: &[String], path: &[String]) -> Option<Vec<String>> {
        let mut path = path.to_vec();
        for _ in 0..MAX_HOPS {
            let supers = path.iter().take_while(|name| *name == "super").count();
            let (base, skipped) = match path[0].as_str() {
                "crate" => (self.crate_of(place), 1),
                "self" => (place, 1),
                "super" => (&place[..place.len().checked_sub(supers)?], supers),
                child if self.modules.contains_key(&[place, &[child.to_owned()]].concat()) => (place, 0),
                name if let Some(part) = name.strip_prefix(OUR_CRATES) => {
                    return Some([&[part.to_owned()], &path[1..]].concat());
                }
                name => {
                    path = [self.modules[place].imports.get(name)?, &path[1..]].concat();
                    continue;
                }
            };
            return Some([base, &path[skipped..]].concat());
        }
        None
    }

    /// The crate of a module.
    fn crate_of<'a>(&self, place: &'a [String]) -> &'a [String] {
        let part = &place[..place.len().min(1)];
        if self.modules.get(part).is_some_and(|module| module.file.ends_with("/lib.rs")) { part } else { &place[..0] }
    }

    /// The file that defines the target of an absolute path; none for a module itself.
    fn file_of(&self, path: &[String]) -> Option<&str> {
        self.definition(path, MAX_HOPS).or_else(|| self.owner_of(path))
    }

    /// The file of the innermost module of the path. A name defined by a macro is not visible; it is assumed to be there.
    fn owner_of(&self, path: &[String]) -> Option<&str> {
        let (module, rest) = self.split(path);
        rest.first().map(|_| &*self.modules[module].file)
    }

    /// The same, if some module certainly defines it.
    fn definition(&self, path: &[String], hops: usize) -> Option<&str> {
        let (place, rest) = self.split(path);
        let module = &self.modules[place];
        let name = rest.first()?;
        if module.items.contains(name) {
            return Some(&module.file);
        }
        let hops = hops.checked_sub(1)?;
        if let Some(target) = module.imports.get(name) {
            let target = [&self.absolute(place, target)?, &rest[1..]].concat();
            return self.definition(&target, hops).or_else(|| self.owner_of(&target));
        }
        let opened = module.globs.iter().filter_map(|glob| self.absolute(place, glob));
        opened.filter_map(|glob| self.definition(&[&glob, rest].concat(), hops)).next()
    }

    /// The innermost module of an absolute path, and the rest of the path.
    fn split<'a>(&self, path: &'a [String]) -> (&'a [String], &'a [String]) {
        let is_module = |depth: &usize| self.modules.contains_key(&path[..*depth]);
        path.split_at((0..=path.len()).rev().find(is_module).unwrap_or_default())
    }
}

/// `actors/queue.rs` and `actors/queue/mod.rs` are both `actors::queue`.
fn module_of(file: &str) -> ModulePath {
    let mut path: ModulePath = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    path.pop_if(|last| matches!(last.as_str(), "mod" | "lib" | "main"));
    path
}

struct Reader<'a> {
    sources: &'a mut Sources,
    only_in_tests: &'a mut Vec<ModulePath>,
}

impl Reader<'_> {
    /// Reads a module, or the inside of an item, whose definitions cannot be named from elsewhere.
    fn read(&mut self, place: &ModulePath, file: &str, tokens: TokenStream, is_module: bool) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            if is_test_attribute(&tokens[at..]) {
                at = self.skip_test_item(place, &tokens, at + 2);
                continue;
            }
            match &tokens[at] {
                TokenTree::Ident(word) if *word == "use" && !is_punct(tokens.get(at + 1), '<') => {
                    let end = end_of(&tokens, at, ';');
                    let is_exported = is_visibility(&tokens[..at]);
                    self.read_use(place, &[], &tokens[at + 1..end], is_exported);
                    at = end;
                }
                TokenTree::Ident(word) if *word == "mod" && matches!(tokens.get(at + 2), Some(TokenTree::Group(_))) => {
                    let inner = [&place[..], &[tokens[at + 1].to_string()]].concat();
                    let module = self.sources.modules.entry(inner.clone()).or_default();
                    file.clone_into(&mut module.file);
                    if let Some(TokenTree::Group(body)) = tokens.get(at + 2) {
                        self.read(&inner, file, body.stream(), true);
                    }
                    at += 2;
                }
                TokenTree::Ident(word) => {
                    if is_module
                        && is_item_keyword(&word.to_string())
                        && let Some(TokenTree::Ident(name)) = tokens.get(at + 1)
                    {
                        self.module(place).items.insert(name.to_string());
                    }
                    at = self.read_path(place, &tokens, at);
                }
                TokenTree::Group(group) => self.read(place, file, group.stream(), false),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            at += 1;
        }
    }

    fn module(&mut self, place: &ModulePath) -> &mut Module {
        self.sources.modules.entry(place.clone()).or_default()
    }

    /// Reads `a::b::c`, and returns the index of its last token.
    fn read_path(&mut self, place: &ModulePath, tokens: &[TokenTree], start: usize) -> usize {
        let mut path = vec![tokens[start].to_string()];
        let mut at = start;
        while is_path_separator(&tokens[at + 1..])
            && let Some(TokenTree::Ident(next)) = tokens.get(at + 3)
        {
            path.push(next.to_string());
            at += 3;
        }
        if path.len() > 1 && !is_in_path(tokens, start) {
            self.module(place).paths.push(path);
        }
        at
    }

    /// Reads the tokens after `use`, with all its braces. A name re-exported by `pub use` does not count as used.
    fn read_use(&mut self, place: &ModulePath, before: &[String], tokens: &[TokenTree], is_exported: bool) {
        for tree in tokens.split(|token| is_punct(Some(token), ',')) {
            let mut path = before.to_vec();
            let mut alias = None;
            for (at, token) in tree.iter().enumerate() {
                match token {
                    TokenTree::Ident(word) if *word == "as" => {
                        alias = tree.get(at + 1).map(TokenTree::to_string);
                        break;
                    }
                    TokenTree::Ident(word) if *word == "self" && !path.is_empty() => {}
                    TokenTree::Ident(word) => path.push(word.to_string()),
                    TokenTree::Group(group) => {
                        let inner: Vec<_> = group.stream().into_iter().collect();
                        self.read_use(place, &path, &inner, is_exported);
                        path.clear();
                    }
                    TokenTree::Punct(sign) if sign.as_char() == '*' => {
                        let module = self.module(place);
                        module.hides_names |= !is_exported
                            && matches!(path.first().map(String::as_str), Some("crate" | "self" | "super"));
                        module.globs.push(std::mem::take(&mut path));
                    }
                    TokenTree::Punct(_) | TokenTree::Literal(_) => {}
                }
            }
            if let Some(last) = path.last().cloned() {
                let module = self.module(place);
                module.imports.insert(alias.unwrap_or(last), path.clone());
                if !is_exported {
                    module.paths.push(path);
                }
            }
        }
    }

    /// Skips the item after `#[cfg(test)]`, and returns the index after it.
    fn skip_test_item(&mut self, place: &ModulePath, tokens: &[TokenTree], start: usize) -> usize {
        let is_body =
            |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        let end = (start..tokens.len()).find(|at| is_punct(tokens.get(*at), ';') || is_body(&tokens[*at]));
        let end = end.unwrap_or(tokens.len());
        let module = tokens[start..end].iter().position(|token| token.to_string() == "mod");
        if let Some(name) = module.and_then(|at| tokens.get(start + at + 1)) {
            self.only_in_tests.push([&place[..], &[name.to_string()]].concat());
        }
        end + 1
    }
}

fn is_test_attribute(tokens: &[TokenTree]) -> bool {
    is_punct(tokens.first(), '#')
        && matches!(tokens.get(1), Some(TokenTree::Group(group)) if group.to_string().replace(' ', "") == "[cfg(test)]")
}

/// Whether these tokens end in `pub` or `pub(…)`.
fn is_visibility(tokens: &[TokenTree]) -> bool {
    let without_scope = match tokens {
        [before @ .., TokenTree::Group(scope)] if scope.delimiter() == Delimiter::Parenthesis => before,
        all => all,
    };
    matches!(without_scope.last(), Some(TokenTree::Ident(word)) if *word == "pub")
}

fn is_item_keyword(word: &str) -> bool {
    matches!(word, "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static" | "macro_rules")
}

/// Whether the token continues a path that has begun before it.
fn is_in_path(tokens: &[TokenTree], at: usize) -> bool {
    at >= 2 && is_path_separator(&tokens[at - 2..])
}

fn is_path_separator(tokens: &[TokenTree]) -> bool {
    is_punct(tokens.first(), ':') && is_punct(tokens.get(1), ':')
}

fn is_punct(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

fn end_of(tokens: &[TokenTree], start: usize, sign: char) -> usize {
    (start..tokens.len()).find(|at| is_punct(tokens.get(*at), sign)).unwrap_or(tokens.len())
}
