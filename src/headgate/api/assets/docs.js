// The page of the API. All text is put in as text, so nothing that a server says becomes markup.
"use strict";

function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

let schemas = {};

function resolve(schema) {
  return schema && schema.$ref ? schemas[schema.$ref.split("/").pop()] || {} : schema || {};
}

function example(given, depth = 0) {
  const schema = resolve(given);
  if (depth > 4) return null;
  if (schema.example !== undefined) return schema.example;
  if (Array.isArray(schema.examples) && schema.examples.length) return schema.examples[0];
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  const either = schema.anyOf || schema.oneOf;
  if (either) return example(either[0], depth + 1);
  if (schema.type === "array") return schema.minItems ? [example(schema.items, depth + 1)] : [];
  if (schema.type === "object") {
    const found = {};
    const wanted = new Set(schema.required || []);
    for (const [name, one] of Object.entries(schema.properties || {})) {
      if (wanted.has(name) || resolve(one).examples) found[name] = example(one, depth + 1);
    }
    return found;
  }
  return { integer: schema.minimum || 0, number: schema.minimum || 0, boolean: false }[schema.type] ?? "";
}

async function send(method, path, operation, form, output) {
  let target = path;
  const query = new URLSearchParams();
  const headers = {};
  const token = document.getElementById("token").value.trim();
  if (token) headers.Authorization = `Bearer ${token}`;
  for (const parameter of operation.parameters || []) {
    const value = form.elements[parameter.name].value;
    if (value === "") continue;
    if (parameter.in === "path") target = target.replace(`{${parameter.name}}`, encodeURIComponent(value));
    else if (parameter.in === "query") query.append(parameter.name, value);
    else if (parameter.in === "header") headers[parameter.name] = value;
  }
  const options = { method, headers };
  if (operation.requestBody) {
    headers["Content-Type"] = "application/json";
    options.body = form.elements.body.value;
  }
  const asked = query.size ? `${target}?${query}` : target;
  output.textContent = `${method} ${asked}\n…`;
  const stop = new AbortController();
  options.signal = stop.signal;
  const timer = setTimeout(() => stop.abort(), 30000);
  try {
    const answer = await fetch(asked, options);
    output.textContent = `${answer.status} ${answer.headers.get("content-type") || ""}\n\n`;
    const reader = answer.body.getReader();
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      text += decoder.decode(value, { stream: true });
      output.append(document.createTextNode(decoder.decode(value)));
      if (text.length > 500000) { stop.abort(); break; }
    }
    try {
      output.textContent = `${answer.status}\n\n${JSON.stringify(JSON.parse(text), null, 2)}`;
    } catch { /* it is no JSON, and stands there as it came */ }
  } catch (error) {
    output.append(document.createTextNode(`\n${error.message}`));
  } finally {
    clearTimeout(timer);
  }
}

function drawn(method, path, operation) {
  const output = make("pre", {});
  const form = make("form", {});
  for (const parameter of operation.parameters || []) {
    const schema = resolve(parameter.schema);
    const usual = parameter.required ? String(example({ ...schema, ...parameter })) : "";
    form.append(make("label", {}, `${parameter.name}${parameter.required ? " *" : ""}`,
      make("input", { name: parameter.name, value: usual, placeholder: parameter.description || "" })));
  }
  if (operation.requestBody) {
    const content = operation.requestBody.content["application/json"];
    const body = make("textarea", { name: "body", spellcheck: "false" });
    const said = content.example ?? Object.values(content.examples || {})[0]?.value ?? example(content.schema);
    body.value = JSON.stringify(said, null, 2);
    form.append(make("label", {}, "body", body));
  }
  form.append(make("button", { type: "submit" }, "Send"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(method, path, operation, form, output);
  });
  const scope = operation["x-headgate-scope"] || (method === "GET" ? "read" : "admin");
  return make("details", {},
    make("summary", {}, make("b", {}, method), make("code", {}, path),
      make("span", {}, operation.summary || ""), make("span", { class: "scope" }, scope)),
    make("p", {}, operation.description || ""), form, output);
}

async function begin() {
  const place = document.getElementById("operations");
  try {
    const said = await (await fetch("/v1/openapi.json")).json();
    schemas = (said.components || {}).schemas || {};
    document.getElementById("version").textContent = said.info.version;
    document.getElementById("about").textContent = said.info.description;
    const groups = new Map();
    for (const [path, item] of Object.entries(said.paths)) {
      for (const [method, operation] of Object.entries(item)) {
        const group = (operation.tags || ["other"])[0];
        if (!groups.has(group)) groups.set(group, []);
        groups.get(group).push(drawn(method.toUpperCase(), path, operation));
      }
    }
    place.replaceChildren();
    for (const [group, operations] of groups) place.append(make("h2", {}, group), ...operations);
  } catch (error) {
    place.textContent = `The description of the API cannot be read: ${error.message}`;
  }
}

begin();
