// redigo: argv = script, "unix" or "tcp", path or port: prints the replies as JSON. Or: argv = "large", path, how many: a
// pipeline that is written whole before an answer is read; prints how many there were, and the last one.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"github.com/gomodule/redigo/redis"
)

type hit []interface{}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func hincrby(link redis.Conn, each hit) {
	must(link.Send("HINCRBY", each[0], each[1], strconv.FormatFloat(each[2].(float64), 'f', 0, 64)))
}

func replay(link redis.Conn, script map[string][]hit) map[string][]int64 {
	replies := map[string][]int64{}
	for _, each := range script["one_by_one"] {
		hincrby(link, each)
		must(link.Flush())
		n, err := redis.Int64(link.Receive())
		must(err)
		replies["one_by_one"] = append(replies["one_by_one"], n)
	}
	for _, each := range script["pipeline"] {
		hincrby(link, each)
	}
	must(link.Flush())
	for range script["pipeline"] {
		n, err := redis.Int64(link.Receive())
		must(err)
		replies["pipeline"] = append(replies["pipeline"], n)
	}
	must(link.Send("MULTI"))
	for _, each := range script["multi"] {
		hincrby(link, each)
	}
	all, err := redis.Int64s(link.Do("EXEC"))
	must(err)
	replies["multi"] = all
	return replies
}

func large(link redis.Conn, count int) []int64 {
	for i := 0; i < count; i++ {
		must(link.Send("HINCRBY", "s77:product_views", "5", 1))
	}
	must(link.Flush())
	var last int64
	for i := 0; i < count; i++ {
		n, err := redis.Int64(link.Receive())
		must(err)
		last = n
	}
	return []int64{int64(count), last}
}

func main() {
	network, address := os.Args[2], os.Args[3]
	if os.Args[1] == "large" {
		network, address = "unix", os.Args[2]
	} else if network == "tcp" {
		address = "127.0.0.1:" + address
	}
	link, err := redis.Dial(network, address)
	must(err)
	defer link.Close()
	if os.Args[1] == "large" {
		count, err := strconv.Atoi(os.Args[3])
		must(err)
		must(json.NewEncoder(os.Stdout).Encode(large(link, count)))
		return
	}
	text, err := os.ReadFile(os.Args[1])
	must(err)
	script := map[string][]hit{}
	must(json.Unmarshal(text, &script))
	must(json.NewEncoder(os.Stdout).Encode(replay(link, script)))
}
