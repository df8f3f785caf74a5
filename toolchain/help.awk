# Prints a Makefile's targets with their help texts: `target: … ## text`. Lines that begin with ## continue a text.
/^[a-z][a-z0-9-]*:.* ## / {
  name = text = $0
  sub(/:.*/, "", name)
  sub(/.* ## /, "", text)
  printf "  make %-16s %s\n", name, text
}
/^## / { printf "%24s%s\n", "", substr($0, 4) }
