# Writes the text file INPUT as the C string NAME into the header OUTPUT.
# Lines become one literal each; backslashes and quotes are escaped, and of two question marks the second, so that no
# trigraph is read out of them.
file(READ "${INPUT}" text)
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "??" "?\\?" text "${text}")
string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
file(WRITE "${OUTPUT}" "static const char ${NAME}[] =\n    \"${text}\";\n")
