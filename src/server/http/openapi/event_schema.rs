//! Events by their type: generators make a type of its own for each, with its own `data`.

use serde_json::{Map, Value, json};

use super::answer_schema::{Missing, completed, reference, without_null};
use crate::http::dto::{EventShape, event_shapes};

/// Puts a schema for each shape of `data` in the place of the general one.
pub fn split(schemas: &mut Map<String, Value>) {
    let Some(general) = schemas.remove("Event") else { return };
    let mut mapping = Map::new();
    let mut events = Vec::new();
    for shape in event_shapes() {
        let event = reference(&format!("{}Event", shape.name));
        mapping.extend(shape.types.iter().map(|event_type| (event_type.as_str().to_owned(), event["$ref"].clone())));
        events.push(event);
        add(schemas, shape, general.clone());
    }
    schemas.insert(
        "Event".to_owned(),
        json!({
            "description": general["description"], "oneOf": events,
            "discriminator": { "propertyName": "type", "mapping": mapping },
        }),
    );
}

fn add(schemas: &mut Map<String, Value>, shape: EventShape, mut event: Value) {
    let EventShape { name, types, data, schemas: used } = shape;
    let (event_name, data_name) = (format!("{name}Event"), format!("{name}Data"));
    let mut described = completed(used, Missing::Null);
    schemas.append(&mut described);
    let mut data = completed(vec![(data_name.clone(), data)], Missing::LeftOut);
    data.values_mut().for_each(without_null);
    event["description"] = data[&data_name]["description"].take();
    data[&data_name]["description"] = json!(format!("Details of `{event_name}`."));
    let names: Vec<_> = types.iter().map(|event_type| event_type.as_str()).collect();
    let properties = &mut event["properties"];
    properties["type"] = if let [one] = &*names {
        json!({ "type": "string", "const": one, "description": "What happened." })
    } else {
        let of_these = json!({ "type": "string", "enum": names, "description": "What happened." });
        schemas.insert(format!("{event_name}Type"), of_these);
        reference(&format!("{event_name}Type"))
    };
    properties["data"] = reference(&data_name);
    schemas.append(&mut data);
    schemas.insert(event_name, event);
}
