import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Files from "node:fs"
import { makeRegistry } from "./src/domain/registry/makeRegistry.ts"
import { openRegistry } from "./src/domain/registry/openRegistry.ts"
import { SandboxRecord } from "./src/domain/registry/Record.ts"
import * as RegistryFiles from "./src/infra/filesystem/RegistryFiles.ts"
import * as Identifiers from "./src/infra/Identifiers.ts"
const id=(i:number)=>`sb-00000000-0000-4000-8000-${String(i).padStart(12,"0")}`
const mk=(i:number)=>new SandboxRecord({ id: id(i), generation:1, runId:"r".repeat(36), attemptId:"a".repeat(36), image:"/images/agents/base", argv:["/usr/bin/agent","--serve","--port","8080"], environment:{A:"x".repeat(200),B:"y".repeat(200),TOKEN:"z".repeat(64)}, metadata:{project:"p"+i,write:"0"}, cpuMillis:1, memoryBytes:1, processesMax:64, disk:null, createdAtMillis:1, expiresAtMillis:2, status:"Running", statusReason:"q".repeat(300), deletion:null, endpointToken:"a".repeat(64)} as never)
const dir="/tmp/rg/open"
const ports=()=>Layer.merge(RegistryFiles.layer(dir),Identifiers.layer)
const owner="00000000-0000-4000-8000-000000000001"
const bare=()=>{const d=dir+"/records";let n=0;for(const name of Files.readdirSync(d)){const fd=Files.openSync(`${d}/${name}`,Files.constants.O_RDONLY|Files.constants.O_NOFOLLOW);const st=Files.fstatSync(fd);if(!st.isFile()||(st.mode&0o077)||st.size>1<<24)throw 1;const b=Buffer.allocUnsafe(st.size);Files.readSync(fd,b,0,st.size,0);Files.closeSync(fd);const o=JSON.parse(b.toString("utf8"));if(o.owner!==owner)throw 2;n++}return n}
const med=(x:number[])=>x.toSorted((a,b)=>a-b)[x.length>>1]!
for(const N of [100,1000,10000]){Files.rmSync(dir,{recursive:true,force:true});Files.mkdirSync(dir+"/records",{recursive:true,mode:0o700});const w=(p:string,o:unknown)=>Files.writeFileSync(`${dir}/${p}`,JSON.stringify(o),{mode:0o600});w("sandboxes.json",{version:2,owner,sandboxes:{}});w("records/meta.json",{version:2,owner});for(let i=0;i<N;i++)w(`records/${id(i)}.json`,{version:2,owner,record:mk(i)})
const a:number[]=[],b:number[]=[],c:number[]=[];for(let r=0;r<7;r++){let t=performance.now();bare();a.push(performance.now()-t);t=performance.now();await Effect.runPromise(Effect.scoped(openRegistry()).pipe(Effect.provide(ports())));b.push(performance.now()-t);t=performance.now();await Effect.runPromise(Effect.scoped(Effect.flatMap(openRegistry(),(o)=>makeRegistry(o,{sandboxes:1e6,cpuMillis:1e9,memoryBytes:1e12}))).pipe(Effect.provide(ports())));c.push(performance.now()-t)}
console.log(N,"bare",med(a).toFixed(1),"open",med(b).toFixed(1),"open+make",med(c).toFixed(1),"ratio",(med(b)/med(a)).toFixed(2),(med(c)/med(a)).toFixed(2))}
// readers beside writes with 1000 records
for(const N of [32,1000]){Files.rmSync(dir,{recursive:true,force:true});Files.mkdirSync(dir,{mode:0o700});
await Effect.runPromise(Effect.scoped(Effect.gen(function*(){const g=yield* makeRegistry(yield* openRegistry(),{sandboxes:1e6,cpuMillis:1e9,memoryBytes:1e12});yield* Effect.forEach(Array.from({length:N},(_,i)=>mk(i)),(r)=>g.admit(r),{concurrency:64});
for(const writers of [0,1,4]){let stop=false;const h:number[]=[];let w=0
const write=Effect.gen(function*(){while(!stop){const num=String(++w);yield* g.update(id(w%N) as never,(r)=>Result.succeed(new SandboxRecord({...r,metadata:{...r.metadata,write:num}})))}})
const read=Effect.promise(async()=>{const end=performance.now()+2000;let i=0;while(performance.now()<end){await new Promise(setImmediate);const t=performance.now();const inv=Effect.runSync(g.inventory);inv.get(id(i++%N) as never);h.push(performance.now()-t)}stop=true})
yield* Effect.all([read,...Array.from({length:writers},()=>write)],{concurrency:"unbounded"});h.sort((x,y)=>x-y);console.log("readers",N,"records",writers,"writers: p50",h[h.length>>1]!.toFixed(4),"p99",h[Math.floor(h.length*.99)]!.toFixed(4),"p99.9",h[Math.floor(h.length*.999)]!.toFixed(4),"writes",w)}})).pipe(Effect.provide(ports())))}
