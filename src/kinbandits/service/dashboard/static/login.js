// A link may carry the token behind "#", which browsers never send: fill it in and go on.
"use strict";
if (location.hash.length > 1) {
  document.getElementById("token").value = location.hash.slice(1);
  history.replaceState(null, "", "/login");
  document.getElementById("login").submit();
}
