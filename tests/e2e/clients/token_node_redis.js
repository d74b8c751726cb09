// node-redis, with the loop that a shop writes around it: argv = path, how many. Prints the replies as JSON.
const { createClient } = require("redis");
const client = createClient({ socket: { path: process.argv[2], reconnectStrategy: () => 1 } });
client.on("error", () => {});
const sent = async (n) => {
  for (let left = 20; ; left--) {
    try {
      return await client.sendCommand(["CTR.INCRBY", "s77:product_views", "5", "2", "TOKEN", `order-${n}`]);
    } catch (lost) {
      if (left === 0) throw lost;
    }
  }
};
(async () => {
  await client.connect();
  const replies = [];
  for (let n = 0; n < +process.argv[3]; n++) replies.push(await sent(n));
  console.log(JSON.stringify(replies));
  client.destroy ? client.destroy() : client.disconnect();
})();
