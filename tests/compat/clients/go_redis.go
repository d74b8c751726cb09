// go-redis: argv = script, "unix" or "tcp", path or port: prints the replies as JSON. Or: argv = "watch", path: prints what
// its Watch came to, and the field afterwards.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"gopkg.in/redis.v5"
)

type hit []interface{}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func filled(hits []hit) func(*redis.Pipeline) error {
	return func(pipe *redis.Pipeline) error {
		for _, each := range hits {
			pipe.HIncrBy(each[0].(string), each[1].(string), int64(each[2].(float64)))
		}
		return nil
	}
}

func values(answered []redis.Cmder, err error) []int64 {
	must(err)
	made := []int64{}
	for _, each := range answered {
		made = append(made, each.(*redis.IntCmd).Val())
	}
	return made
}

func replay(client *redis.Client, script map[string][]hit) map[string][]int64 {
	replies := map[string][]int64{}
	for _, each := range script["one_by_one"] {
		n, err := client.HIncrBy(each[0].(string), each[1].(string), int64(each[2].(float64))).Result()
		must(err)
		replies["one_by_one"] = append(replies["one_by_one"], n)
	}
	replies["pipeline"] = values(client.Pipelined(filled(script["pipeline"])))
	replies["multi"] = values(client.TxPipelined(filled(script["multi"])))
	return replies
}

// The sum afterwards is read with a hit of 0.
func watch(client *redis.Client) map[string]interface{} {
	err := client.Watch(func(tx *redis.Tx) error {
		_, err := tx.Pipelined(filled([]hit{{"s77:product_views", "5", 1.0}}))
		return err
	}, "s77:product_views")
	left, failed := client.HIncrBy("s77:product_views", "5", 0).Result()
	must(failed)
	return map[string]interface{}{"why": fmt.Sprint(err), "left": left}
}

func main() {
	options := &redis.Options{Network: "unix"}
	if os.Args[1] == "watch" {
		options.Addr = os.Args[2]
	} else if options.Addr = os.Args[3]; os.Args[2] == "tcp" {
		options.Network, options.Addr = "tcp", "127.0.0.1:"+os.Args[3]
	}
	client := redis.NewClient(options)
	defer client.Close()
	if os.Args[1] == "watch" {
		must(json.NewEncoder(os.Stdout).Encode(watch(client)))
		return
	}
	text, err := os.ReadFile(os.Args[1])
	must(err)
	script := map[string][]hit{}
	must(json.Unmarshal(text, &script))
	must(json.NewEncoder(os.Stdout).Encode(replay(client, script)))
}
