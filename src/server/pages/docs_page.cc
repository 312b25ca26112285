#include "server/pages/docs_page.h"

namespace quire::server {

std::string_view docs_page() {
  return R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Quire API</title>
<style>
:root{color-scheme:light dark;--line:color-mix(in srgb,currentColor 18%,transparent)}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
code,pre,.path{font-family:ui-monospace,monospace;font-size:.92em}
details{border:1px solid var(--line);border-radius:.5rem;margin:.5rem 0;padding:.4rem .8rem}
summary{cursor:pointer}.verb{display:inline-block;width:3.5rem;font-weight:600}
table{border-collapse:collapse;width:100%}td,th{border-top:1px solid var(--line);padding:.25rem .5rem;text-align:left;vertical-align:top}
pre{overflow:auto;padding:.6rem;border:1px solid var(--line);border-radius:.4rem}
</style></head><body>
<h1>Quire API</h1>
<p>The same as <a href="openapi.json">openapi.json</a>, for people. Try it:</p>
<pre id="try"></pre><div id="list">Loading …</div>
<script>
const make=(tag,text)=>{const e=document.createElement(tag);if(text!==undefined)e.textContent=text;return e};
const base=location.href.replace(/docs\/?$/,"").replace(/\/$/,"");
document.getElementById("try").textContent=`curl ${base}/v1/chat/completions -H 'Content-Type: application/json' \\
  -d '{"messages":[{"role":"user","content":"Hello"}],"stream":true}'`;
const typeOf=s=>!s?"":s.$ref?s.$ref.split("/").pop():s.anyOf||s.oneOf?(s.anyOf||s.oneOf).filter(x=>x.type!=="null").map(typeOf).join(" or ")
  :s.type==="array"?"list of "+(typeOf(s.items)||"values"):[].concat(s.type||"any").join(" or ");
const bounds=s=>{s=s.anyOf?s.anyOf[0]:s;const p=[];if(s.minimum!==undefined)p.push("≥ "+s.minimum);
  if(s.exclusiveMinimum!==undefined)p.push("> "+s.exclusiveMinimum);if(s.maximum!==undefined)p.push("≤ "+s.maximum);
  if(s.enum)p.push(s.enum.join(", "));return p.join(", ")};
const table=(doc,schema)=>{while(schema&&schema.$ref)schema=doc.components.schemas[schema.$ref.split("/").pop()];
  if(!schema||!schema.properties)return null;const t=make("table"),h=make("tr");
  for(const c of["field","type","default","about"])h.append(make("th",c));t.append(h);
  for(const[name,f]of Object.entries(schema.properties)){const r=make("tr");r.append(make("td"),make("td",[typeOf(f),bounds(f)].filter(Boolean).join(", ")),
    make("td",f.default===undefined||f.default===null?"":JSON.stringify(f.default)),make("td",f.description||""));
    r.firstChild.append(make("code",name));t.append(r)}return t};
fetch("openapi.json").then(r=>{if(!r.ok)throw new Error("HTTP "+r.status);return r.json()}).then(doc=>{
  const list=document.getElementById("list");list.textContent="";
  for(const[path,item]of Object.entries(doc.paths))for(const[verb,op]of Object.entries(item)){
    const d=make("details"),s=make("summary");const v=make("span",verb.toUpperCase());v.className="verb";
    const p=make("span",path);p.className="path";s.append(v,p,make("span"," — "+op.summary));d.append(s);
    const body=op.requestBody&&op.requestBody.content["application/json"].schema;
    if(body){d.append(make("h4","Request"));const t=table(doc,body);if(t)d.append(t)}
    const ok=op.responses["200"].content&&op.responses["200"].content["application/json"];
    if(ok){const t=table(doc,ok.schema);if(t){d.append(make("h4","Answer"),t)}}
    d.append(make("p","Status: "+Object.keys(op.responses).join(", ")));list.append(d)}
}).catch(e=>{document.getElementById("list").textContent="Cannot load openapi.json: "+e.message});
</script></body></html>
)html";
}

}  // namespace quire::server
