// ioredis (HELLO 3, INFO as ready check), or iovalkey, its twin: argv = which, script, "unix" or "tcp", path or port.
// Prints the replies as JSON.
const [which, script, kind, where] = [process.argv[2], require(process.argv[3]), process.argv[4], process.argv[5]];
const { Redis } = require(which);
const client = new Redis(kind === "unix" ? { path: where } : { host: "127.0.0.1", port: +where });
const values = (pairs) => pairs.map(([error, value]) => (error ? String(error) : value));
const filled = (pipe, hits) => hits.reduce((to, [key, field, n]) => to.hincrby(key, field, n), pipe);
(async () => {
  const replies = { one_by_one: [] };
  for (const hit of script.one_by_one) replies.one_by_one.push(await client.hincrby(...hit));
  replies.pipeline = values(await filled(client.pipeline(), script.pipeline).exec());
  replies.multi = values(await filled(client.multi(), script.multi).exec());
  console.log(JSON.stringify(replies));
  client.disconnect();
})();
