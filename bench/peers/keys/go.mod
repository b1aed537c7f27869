module windlassbench/keys

go 1.26.0
