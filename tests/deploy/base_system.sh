# Sourced by tests that need a Debian system of their own. Nothing of it stays in the repository.

# make_base_system FOLDER: a minimal Debian bookworm that downloads packages the way this machine does.
make_base_system() {
  local folder="$1" file
  local mirror
  mirror="$(apt-cache policy | sed -n 's/^ *[0-9-]* \(http[^ ]*\) bookworm\/main .*/\1/p' | head -n 1)"
  debootstrap --variant=minbase bookworm "$folder" ${mirror:+"$mirror"} >"$folder.log" ||
    { tail -n 30 "$folder.log" >&2; return 1; }
  # Proxies, credentials and certificates that reaching the mirror needs; foreign repositories do not.
  for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*proxy* /etc/apt/auth.conf /etc/apt/auth.conf.d/* \
      /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
    [[ -f "$file" ]] && install -D -m 644 "$file" "$folder$file"
  done
  if [[ -f "$folder/etc/apt/sources.list.d/debian.sources" ]]; then
    rm -f "$folder/etc/apt/sources.list"
  fi
  cp /etc/resolv.conf "$folder/etc/resolv.conf"
  chroot "$folder" apt-get clean
  rm -rf "$folder"/var/lib/apt/lists/*
}
