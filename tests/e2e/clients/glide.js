// Valkey GLIDE (HELLO 3, then INFO replication): argv = script, "tcp", port. Prints the replies as JSON.
const { Batch, GlideClient } = require("@valkey/valkey-glide");
const [script, port] = [require(process.argv[2]), +process.argv[4]];
const all = (batch, hits) => hits.reduce((to, [key, field, n]) => to.hincrBy(key, field, n), batch);
(async () => {
  // by itself it waits for 250 ms, less than a busy machine may take
  const client = await GlideClient.createClient({ addresses: [{ host: "127.0.0.1", port }], requestTimeout: 10000 });
  const replies = { one_by_one: [] };
  for (const hit of script.one_by_one) replies.one_by_one.push(await client.hincrBy(...hit));
  replies.pipeline = await client.exec(all(new Batch(false), script.pipeline), true);
  replies.multi = await client.exec(all(new Batch(true), script.multi), true);
  console.log(JSON.stringify(replies));
  client.close();
})();
