# Prints the targets of a Makefile with what they do: `target: … ## text`, continued in lines that begin with ##.
/^[a-z][a-z0-9-]*:.* ## / {
  name = text = $0
  sub(/:.*/, "", name)
  sub(/.* ## /, "", text)
  printf "  make %-16s %s\n", name, text
}
/^## / { printf "%24s%s\n", "", substr($0, 4) }
