# SPDX-License-Identifier: BSD-3-Clause
# Sums up scsi_dispatch_cmd_start events; -v block=BYTES is the drive's sector.
function number_after(word,   at, text) {
  at = index($0, word)
  if (!at)
    return 0
  text = substr($0, at + length(word))
  return text + 0
}
# The operation code, and the service action of those that have one.
function code(   at, bytes) {
  at = index($0, "raw=")
  split(substr($0, at + 4), bytes, /[ )]/)
  if (bytes[1] == "95" || bytes[1] == "94")
    return bytes[1] " " bytes[2]
  return bytes[1]
}
/scsi_dispatch_cmd_start:/ {
  bytes = number_after("txlen=") * block
  c = code()
  if (c ~ /^(0a|2a|aa|8a)$/) { writes++; write_bytes += bytes }
  else if (c ~ /^(08|28|a8|88)$/) { reads++; read_bytes += bytes }
  else if (c ~ /^(35|91)$/) syncs++
  else if (c == "00") tests++
  else if (c ~ /^95/) reports++
  else if (c ~ /^94 (04|84)/) resets++
  else { other++; kinds[c]++ }
}
END {
  OFMT = "%.0f"; CONVFMT = "%.0f"
  print "writes", writes + 0; print "write_bytes", write_bytes + 0
  print "reads", reads + 0; print "read_bytes", read_bytes + 0
  print "syncs", syncs + 0; print "resets", resets + 0
  print "reports", reports + 0; print "tests", tests + 0; print "other", other + 0
  for (k in kinds) print "other:" k, kinds[k]
}
